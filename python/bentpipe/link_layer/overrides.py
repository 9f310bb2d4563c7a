"""Overrides of an access: ``--set``, ``--snr``, ``--elevation`` and ``--block-error-rate``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bentpipe.link_layer.access import Radio, RadioAccess, find_access
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantities import Angle, Probability, UnitError
from bentpipe.scenario.radio_quantities import Decibel
from bentpipe.scenario.sweep import expand_directions, overrides, parse_override
from bentpipe.scenario.toml_writer import inline

if TYPE_CHECKING:
    from bentpipe.link_layer.config import Setting

__all__ = ["check_options", "check_overwritten", "resolve_access"]

PATH = "path."
"""Prefix of settings that apply to the access; others apply to the scenario of the comparison."""


def resolve_access(
    name: str,
    settings: Sequence[str] = (),
    *,
    snr: str | None = None,
    elevation: str | None = None,
    block_error_rate: str | None = None,
) -> tuple[RadioAccess, tuple[str, ...]]:
    """Return the access with its overrides, and the texts of the settings that do not apply to it.

    Args:
        name: a preset or a TOML file.
        settings: ``KEY=VALUE`` texts; those of ``path.`` apply to the access.
        snr: signal-to-noise ratio of the channels, such as ``"7 dB"``.
        elevation: elevation of the satellite for the channels, such as ``"60 deg"``.
        block_error_rate: block error rates by attempt, such as ``"30 %,3 %"``.

    Raises:
        ScenarioError: the access or a setting is wrong, or the radios have no such parameter.
    """
    of_path = [parse_override(text) for text in settings if text.startswith(PATH)]
    access = find_access(name, of_path)
    found: list[tuple[str, object]] = []
    if snr is not None:
        _check_value("snr", snr, Decibel.parse)
        found += [(key, snr) for key in _channel_keys(access, "snr")]
    if elevation is not None:
        if elevation != "orbit":
            _check_value("elevation", elevation, Angle.parse)
        found += [(key, elevation) for key in _channel_keys(access, "elevation")]
    if block_error_rate is not None:
        rates = [rate.strip() for rate in block_error_rate.split(",")]
        for rate in rates:
            _check_value("block_error_rate", rate, Probability.parse)
        found += [(key, rates) for key in _error_keys(access)]
    for key, _ in found:
        if any(key == given or overrides(given, key) for given, _ in of_path):
            raise ScenarioError(
                [("set", f"found {key} and its option, expected one of them")], SOURCE_ARGUMENT
            )
    if found:
        access = find_access(name, [*of_path, *found])
    return access, tuple(text for text in settings if not text.startswith(PATH))


def _check_value(option: str, value: str, parse: Callable[[object], object]) -> None:
    try:
        parse(value)
    except UnitError as error:
        raise ScenarioError([(option, str(error))], SOURCE_ARGUMENT) from None


def _channel_keys(access: RadioAccess, option: str) -> list[str]:
    """Return the keys of a parameter of the channels that determine errors. Raises ScenarioError without one."""
    radios = [radio for radio in access.radios if radio.channel is not None and not _error_rates(radio)]
    if not radios:
        key = next(_error_key(radio) for radio in access.radios if _error_rates(radio))
        rates = inline(_error_rates(access.radios[0]))
        text = f"{access.source} has no channel with {option}: its errors are {key} = {rates}"
        raise ScenarioError(
            [(option, f"{text}; set --block-error-rate, or a channel in a scenario")], SOURCE_ARGUMENT
        )
    known = [radio for radio in radios if radio.channel is not None and option in radio.channel]
    if not known:
        keys = [key for key in radios[0].channel or {} if key != "model"]
        model = (radios[0].channel or {}).get("model")
        text = f'the channel "{model}" of {access.source} has no {option}, expected one of its keys: {", ".join(keys)}'
        raise ScenarioError([(option, text)], SOURCE_ARGUMENT)
    return [f"{radio.key}.channel.{option}" for radio in known]


def _error_keys(access: RadioAccess) -> list[str]:
    """Return the keys of the block error rates. Raises ScenarioError if a channel determines the errors."""
    radios = [radio for radio in access.radios if _error_rates(radio)]
    if radios:
        return [_error_key(radio) for radio in radios]
    radio = access.radios[0]
    keys = [f"--{key}" for key in ("snr", "elevation") if key in (radio.channel or {})]
    channel = f"{radio.key}.channel determines its errors"
    text = f"{access.source} has no block_error_rate: {channel}; set {' or '.join(keys)}"
    raise ScenarioError([("block_error_rate", text)], SOURCE_ARGUMENT)


def _error_key(radio: Radio) -> str:
    return f"{radio.key}.{radio.kind}.block_error_rate"


def _error_rates(radio: Radio) -> Any:
    return radio.table.get("block_error_rate")


OPTIONS = {
    "flow.main.congestion": "--congestion",
    "flow.main.load": "--size, --duration or --codec",
    "flow.main.transport": "every transport is compared",
    "flow.main.direction": "the radio gives it",
    "seeds": "--seeds",
    "sweep": "--setting",
    "trace.packets": "the tables need it",
}
"""Keys of the comparison's scenario that the traffic or an option sets, with that option or the reason."""


def check_options(keys: Iterable[str]) -> None:
    """Refuse an override of a key that the comparison sets. Raises ScenarioError."""
    for key in keys:
        for fixed, option in OPTIONS.items():
            if key == fixed or overrides(fixed, key) or overrides(key, fixed):
                advice = f"expected {option}" if option.startswith("--") else option
                raise ScenarioError(
                    [("set", f"found {key}, which the comparison sets; {advice}")], SOURCE_ARGUMENT
                )


def check_overwritten(
    access: RadioAccess, known: Sequence[Setting], settings_of: Callable[[RadioAccess], Sequence[Setting]]
) -> None:
    """Refuse an override that every compared setting replaces without using its value.

    Args:
        access: the access with its overrides.
        known: the compared settings.
        settings_of: function that returns all settings of an access.

    Raises:
        ScenarioError: an override has no effect.
    """
    labels = {setting.label for setting in known}
    for index, (key, _) in enumerate(access.overrides):
        written = [_values_over(setting.keys, expand_directions(key)) for setting in known]
        if not all(written):
            continue
        others = [*access.overrides[:index], *access.overrides[index + 1 :]]
        before = [one for one in settings_of(find_access(access.source, others)) if one.label in labels]
        if {one.label: one.keys for one in before} != {one.label: one.keys for one in known}:
            continue  # a setting takes its value from the access
        values = ", ".join(dict.fromkeys(text for texts in written for text in texts))
        text = f"{key} has no effect: the compared settings set it ({values}); remove it, or select some by --setting"
        raise ScenarioError([("set", text)], SOURCE_ARGUMENT)


def _values_over(keys: Mapping[str, Any], covered: Iterable[str]) -> list[str]:
    """Return the values that replace all of the ``covered`` keys; empty unless each is replaced."""
    values = []
    for key in covered:
        found = [inline(value) for name, value in keys.items() if name == key or overrides(name, key)]
        if not found:
            return []
        values += found
    return values
