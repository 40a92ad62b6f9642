"""Without cargo the engine is not built, and there is nothing to compare."""
import os

import engines
import pytest


def pytest_collection_modifyitems(items):
    if not os.path.exists(engines.LINES):
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"{engines.LINES} is not built (Rust's cargo is needed)"))
