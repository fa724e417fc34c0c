"""Fitted models where JAX is not: predictions by NumPy alone, and ONNX files.

What a model computes is written once, in `units`, `network`, `classes` and `laws`, with the operations of an
`Arithmetic`: NumPy's compute, those of a graph write down what is to be computed.
"""
