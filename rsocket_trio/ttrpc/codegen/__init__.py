"""The plugin of protoc, ``protoc-gen-trio-ttrpc``: Python code for the services of .proto files.

For each .proto file with services it writes a module ``x_ttrpc.py`` and its types ``x_ttrpc.pyi``.
The messages come from ``x_pb2.py``, which protoc itself writes. This package needs the extra
``ttrpc``.

- ``plugin``: the program: reads a request of protoc, and answers it
- ``options``: the options of the plugin
- ``model``: what is generated for a file: services, methods, types, names
- ``names``: names of modules, methods and constants that Python accepts
- ``imports``: the imports of message modules
- ``docstrings``: comments of the .proto as docstrings
- ``texts``: what the two generated files have in common
- ``module_source``: the text of the module
- ``stub_source``: the text of its types
"""
