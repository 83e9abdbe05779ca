"""`holdfast.run` and `holdfast.output`: text, shell lines, lines as they come, and retries by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast import Retry

from ..support.processes import kill_both, sentinel_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.guard


class TestText:
    def test_a_result_as_text(self) -> None:
        result = holdfast.run(["sh", "-c", "cat; echo err >&2"], input="ä\nb\n", text=True)
        assert result.ok
        assert (result.stdout, result.stderr) == ("ä\nb\n", "err\n")
        assert result.lines() == ["ä", "b"]
        assert result.report["status"] == "succeeded"
        assert result.check() is result

    def test_bytes_that_are_no_text(self) -> None:
        assert holdfast.run(["printf", r"a\377b"], text=True).stdout == "a\ufffdb"
        assert holdfast.run(["printf", r"a\377b"], text=True, encoding="latin-1").stdout == "aÿb"

    def test_a_failed_result(self) -> None:
        result = holdfast.run("echo why >&2; exit 3", shell=True, text=True)
        assert not result.ok
        with pytest.raises(holdfast.RunError) as caught:
            result.check()
        assert caught.value.result is result


class TestShell:
    def test_a_line(self) -> None:
        assert holdfast.run("echo $((1 + 2)) | cat", shell=True).stdout == b"3\n"

    def test_a_list_is_no_line(self) -> None:
        with pytest.raises(holdfast.SpecError, match="one string"):
            holdfast.run(["echo", "a"], shell=True)


class TestOutput:
    def test_the_text_of_a_success(self) -> None:
        assert holdfast.output(["echo", "hello"]) == "hello\n"
        assert holdfast.output("echo $0", shell=True) == "/bin/sh\n"

    def test_a_failure_raises_with_its_result(self) -> None:
        with pytest.raises(holdfast.RunError) as caught:
            holdfast.output("echo partly; exit 3", shell=True)
        assert caught.value.result.exit_code == 3


class TestLines:
    def test_each_line_once_and_the_last_without_its_end(self) -> None:
        lines: list[str] = []
        result = holdfast.run(r"printf 'a\nb\r\n'; echo err >&2; printf 'c'", shell=True, on_line=lines.append)
        assert lines == ["a", "b", "c"]
        assert result.stdout == b""

    def test_a_character_cut_in_two_by_writes(self) -> None:
        lines: list[str] = []
        holdfast.run(r"printf '\303'; sleep 0.1; printf '\244\n'", shell=True, on_line=lines.append)
        assert lines == ["ä"]

    def test_one_reader_of_the_output(self) -> None:
        with pytest.raises(holdfast.SpecError, match="both given"):
            holdfast.run(["true"], on_line=print, on_output=print)


class TestRetry:
    """Each attempt adds a line to a file."""

    def line(self, path: Path, then: str) -> str:
        return f"echo >>{path}; {then}"

    def count(self, path: Path) -> int:
        return len(path.read_text())

    def test_until_it_succeeds(self, tmp_path: Path) -> None:
        path = tmp_path / "attempts"
        line = self.line(path, f"[ $(wc -l <{path}) -ge 3 ]")
        result = holdfast.run(line, shell=True, retry=Retry(times=5, on=("failed",), pause="1ms"))
        assert result.ok
        assert self.count(path) == 3

    def test_at_most_so_many_times(self, tmp_path: Path) -> None:
        path = tmp_path / "attempts"
        result = holdfast.run(self.line(path, "exit 3"), shell=True, retry=Retry(times=2, on=("exit",)))
        assert result.exit_code == 3
        assert self.count(path) == 2

    def test_after_a_timeout(self) -> None:
        result = holdfast.run(["sleep", "600"], timeout=0.1)
        assert Retry().wants(result)
        assert Retry(on=("deadline",)).wants(result)
        assert not Retry(on=("idle",)).wants(result)

    def test_not_for_another_cause(self, tmp_path: Path) -> None:
        path = tmp_path / "attempts"
        holdfast.run(self.line(path, "exit 3"), shell=True, retry=Retry())
        assert self.count(path) == 1

    @pytest.mark.parametrize(("ambiguous", "attempts"), [(False, 1), (True, 2)])
    def test_an_ambiguous_loss_is_not_repeated_unless_asked(
        self, tmp_path: Path, ambiguous: bool, attempts: int
    ) -> None:
        """The command has run: nobody knows whether it did its work."""
        path = tmp_path / "attempts"

        def lose(guard: str) -> None:
            kill_both(sentinel_of(int(guard)), int(guard))

        line = self.line(path, "echo $PPID; sleep 600")
        retry = Retry(times=2, on=("lost",), ambiguous=ambiguous)
        result = holdfast.run(line, shell=True, on_line=lose, retry=retry)
        assert result.status == "lost"
        assert self.count(path) == attempts

    @pytest.mark.parametrize("retry", [Retry(on=("cancelled",)), Retry(on="lost"), Retry(times=0)])
    def test_a_wrong_retry_starts_nothing(self, tmp_path: Path, retry: Retry) -> None:
        with pytest.raises(holdfast.SpecError, match="retry"):
            holdfast.run(["touch", str(tmp_path / "ran")], retry=retry)
        assert not (tmp_path / "ran").exists()
