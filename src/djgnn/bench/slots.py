"""Trials as numbered slots: claimed by one worker each, so that N asked for are N run.

A study holds N waiting trials before anybody works. A worker takes one by moving it from waiting to
running, which the database lets only one of them do. What a killed worker leaves running is put
back. So any number of processes on any number of machines together run exactly N trials, and a
study that was stopped goes on where it was.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from djgnn.bench.search import Search, need_optuna
from djgnn.errors import InputError

if TYPE_CHECKING:
    import optuna

BEAT, GRACE = 20.0, 300.0
"""Seconds between two signs of life, and without one before a trial is taken from its worker."""
OPENING = 8
"""Attempts to open a storage: two processes may be making its tables at the same moment."""


class Slots:
    """The trials of a search in a storage.

    Args:
        search: The search.
        url: Storage, such as ``sqlite:///file`` or ``postgresql://...``.
        trials: How many trials there are to be, in all processes together.
    """

    def __init__(self, search: Search, url: str, trials: int) -> None:
        self.search, self.trials = search, trials
        self.file = Path(url[len("sqlite:///") :]) if url.startswith("sqlite:///") else None
        self.storage, self.study = _open(search, url)
        self.me = _identity(os.getpid())

    def claim(self) -> optuna.Trial | None:
        """Take a trial nobody has; ``None`` if there is none left."""
        trials = need_optuna().trial
        with self._alone():
            self._fill()
            self._put_back()
            for frozen in self._of(trials.TrialState.WAITING):
                if self._take(frozen):
                    self.study.sampler = self.search.make_sampler(frozen.number)
                    trial: optuna.Trial = trials.Trial(self.study, frozen._trial_id)
                    return trial
        return None

    def finish(self, trial: optuna.Trial, value: float | None, state: Any, reason: str) -> bool:
        """Close a trial; ``False`` if it was taken from this worker meanwhile."""
        frozen = self.storage.get_trial(trial._trial_id)
        if frozen.user_attrs.get("worker") != self.me or frozen.state.is_finished():
            return False
        if reason:
            trial.set_user_attr("reason", reason)
        self.study.tell(trial, None if value is None else value, state=state)
        return True

    def fail_worker(self, pid: int, reason: str) -> None:
        """Close what a process of this machine was at when it ended."""
        states = need_optuna().trial.TrialState
        host = _identity(pid)["host"]
        for frozen in self._of(states.RUNNING):
            worker = frozen.user_attrs.get("worker", {})
            if (worker.get("host"), worker.get("pid")) == (host, pid):
                self.storage.set_trial_user_attr(frozen._trial_id, "reason", reason)
                self.storage.set_trial_state_values(frozen._trial_id, states.FAIL)

    def finished(self) -> list[optuna.trial.FrozenTrial]:
        """The trials that are over, by number."""
        return [t for t in self._of() if t.state.is_finished()]

    @contextmanager
    def alive(self, trial: optuna.Trial) -> Iterator[None]:
        """Give signs of life for a trial while it runs."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(BEAT):
                # The storage may be away for a moment, or the trial closed: its end will tell.
                with suppress(Exception):
                    self.storage.set_trial_user_attr(trial._trial_id, "beat", time.time())

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _of(self, *states: Any) -> list[optuna.trial.FrozenTrial]:
        found = self.study.get_trials(deepcopy=False, states=states or None)
        return sorted((t for t in found if t.number < self.trials), key=lambda t: t.number)

    def _fill(self) -> None:
        """Bring the number of trials to N; one too many, made in a race, is never claimed."""
        for _ in range(self.trials - len(self.study.get_trials(deepcopy=False))):
            self.study.enqueue_trial({})

    def _take(self, frozen: optuna.trial.FrozenTrial) -> bool:
        lib = need_optuna()
        running = lib.trial.TrialState.RUNNING
        try:
            if not self.storage.set_trial_state_values(frozen._trial_id, running):
                return False
        except lib.exceptions.UpdateFinishedTrialError:
            return False
        self.storage.set_trial_user_attr(frozen._trial_id, "worker", self.me)
        self.storage.set_trial_user_attr(frozen._trial_id, "beat", time.time())
        return True

    def _put_back(self) -> None:
        """Free the trials whose worker is gone."""
        states = need_optuna().trial.TrialState
        for frozen in self._of(states.RUNNING):
            if self._abandoned(frozen):
                self.storage.set_trial_state_values(frozen._trial_id, states.WAITING)

    def _abandoned(self, frozen: optuna.trial.FrozenTrial) -> bool:
        worker, beat = frozen.user_attrs.get("worker"), frozen.user_attrs.get("beat")
        if worker is None or beat is None:
            # A claim is complete before the lock on a file is left; elsewhere it may be under way.
            start = frozen.datetime_start
            age = time.time() - start.timestamp() if start else GRACE + 1
            return self.file is not None or age > GRACE
        if worker["host"] == self.me["host"]:
            return bool(_identity(worker["pid"])["born"] != worker["born"])
        return time.time() - float(beat) > GRACE

    def _alone(self) -> Any:
        """SQLite has no row locks: claims on a file take turns. A server needs no such thing."""
        return nullcontext() if self.file is None else _turn(self.file.with_suffix(".lock"))


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Wait for and hold a lock that ends with its process: a transaction on a file of its own."""
    connection = sqlite3.connect(path, timeout=600, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()


def _open(search: Search, url: str) -> tuple[Any, Any]:
    """The storage and the study in it, made if they are not there.

    Raises:
        InputError: If the storage cannot be reached.
    """
    lib = need_optuna()
    url = with_driver(url)
    _check_address(url)
    engine = {"connect_args": {"timeout": 60}} if url.startswith("sqlite:") else {}

    def attempt() -> tuple[Any, Any]:
        storage = lib.storages.RDBStorage(url, engine_kwargs=engine)
        study = lib.create_study(
            storage=storage,
            study_name=search.name,
            direction="maximize",
            load_if_exists=True,
            pruner=search.make_pruner(),
        )
        return storage, study

    opened: tuple[Any, Any] = _persist(attempt)
    return opened


def _check_address(url: str) -> None:
    """Refuse an address that cannot be taken apart; nothing of it is repeated, it has a password.

    Raises:
        InputError: If it is none.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        host = make_url(url).host or ""
    except (ArgumentError, ValueError):
        host = "@"
    if "@" in host:
        raise InputError(
            "storage: no address such as postgresql://user:password@host:5432/name; write @, :, "
            "/ and % in a password as %40, %3A, %2F, %25"
        ) from None


def with_driver(url: str) -> str:
    """The address with the driver that is installed; SQLAlchemy's own choice changed over time.

    Example:
        >>> with_driver("sqlite:///a.db")
        'sqlite:///a.db'
    """
    scheme, separator, rest = url.partition("://")
    if scheme not in ("postgres", "postgresql"):
        return url
    for driver in ("psycopg", "psycopg2"):
        if importlib.util.find_spec(driver) is not None:
            return f"postgresql+{driver}{separator}{rest}"
    raise InputError(
        "storage: PostgreSQL needs a driver; `pip install djgnn[search]` (got no psycopg)"
    )


def _persist(attempt: Callable[[], Any]) -> Any:
    from sqlalchemy.exc import SQLAlchemyError

    for number in range(OPENING):
        try:
            return attempt()
        except (ImportError, SQLAlchemyError) as error:
            if isinstance(error, ImportError) or number == OPENING - 1:
                reason = " ".join(str(getattr(error, "orig", error)).split())[:200]
                raise InputError(
                    "storage: cannot be opened; check the address, the password and that the "
                    f"server runs (got {reason})"
                ) from error
            time.sleep(0.1 * 2**number)
    raise AssertionError("not reached")


def _identity(pid: int) -> dict[str, Any]:
    """Machine, process and its time of birth, for a number is used again; 0 if it is not alive."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        born = text.rpartition(")")[2].split()[19]
    except OSError:
        born = "0" if not _runs(pid) else "unknown"
    return {"host": socket.gethostname(), "pid": pid, "born": born}


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
