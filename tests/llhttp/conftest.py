"""Says how the cases went, in numbers."""
import test_cases


def pytest_terminal_summary(terminalreporter):
    for verdict, n in sorted(test_cases.COUNT.items()):
        terminalreporter.write_line(f"{n:5} {verdict}")
