"""Members dealt to cores, rows to devices, and what the processes of one fit agree on."""
