"""A page as a list of its elements, by the parser of the standard library."""

from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Tree(HTMLParser):
    """All elements as (tag, attributes, text, path of parents); raises if tags are not nested properly."""

    def __init__(self, page):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(page)
        assert not self._open, f"never closed: {[e[0] for e in self._open]}"

    def handle_starttag(self, tag, attributes):
        element = [tag, dict(attributes), "", [e[0] for e in self._open]]
        assert len(attributes) == len(element[1]), f"an attribute twice: {attributes}"
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.elements.append([tag, dict(attributes), "", [e[0] for e in self._open]])

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for element in self._open:
            element[2] += data

    def all(self, tag):
        return [element for element in self.elements if element[0] == tag]
