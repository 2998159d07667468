"""rdmaqp brings RDMA queue pairs up from Python, and says what is wrong before the hardware does.

Everything a program needs is here: ``__init__.pyi`` lists the names and where each lives. A name's module is loaded
when the name is first used, so that ``import rdmaqp`` costs little, needs no libibverbs and loads no rich.
"""

import sys

import lazy_loader

__version__ = "0.1.0"

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

#: Names that other libraries have for what is here.
_HERE = {
    "AH": "qp.destination()", "CQ": "context.create_cq()", "MR": "pd.reg_mr()", "MW": "pd.alloc_mw()",
    "PD": "context.alloc_pd()", "QP": "pd.create_qp()", "SRQ": "pd.create_srq()", "WR": "Send, Write, Read or Recv",
    "connect": "Exchange.connect() or Connection.connect()", "get_device_list": "devices()", "device_list": "devices()",
    "open_device": "open()", "Server": "Listener() or listen()", "version": "__version__",
}  # fmt: skip


def __getattr__(name):  # its types are in the stub
    try:
        return _lazy(name)
    except AttributeError:
        hint = f"; here it is {_HERE[name]}" if name in _HERE else ""
        # With these two, Python itself adds the nearest name.
        raise AttributeError(
            f"module 'rdmaqp' has no attribute {name!r}{hint}", name=name, obj=sys.modules[__name__]
        ) from None
