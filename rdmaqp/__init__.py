"""rdmaqp brings RDMA queue pairs up from Python, and says what is wrong before the hardware does.

Everything a program needs is here: ``__init__.pyi`` lists the names and where each lives. A name's module is loaded
when the name is first used, so that ``import rdmaqp`` costs little, needs no libibverbs and loads no rich.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
