#!/usr/bin/env python3
"""Writes ticks.txt: python3 ticks.py > ticks.txt

For zones, cron expressions and years, the number of ticks and the first 8 digits of the SHA-256 of their Unix times, one
a line. It shares no code and no method with package recur: it tries each time of each day, and asks zoneinfo for its
instants.
"""
import hashlib
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

YEARS = range(2006, 2026)
ZONES = """Africa/Cairo Africa/Casablanca America/Caracas America/New_York America/Sao_Paulo America/St_Johns
Antarctica/Troll Asia/Shanghai Asia/Tehran Australia/Lord_Howe Europe/Berlin Pacific/Apia""".split()

# Expression, minutes, hours, test of a date, whether the hours are fixed.
EVERY = lambda d: True
LINES = [
    ("0 0 * * *", [0], [0], EVERY, True),
    ("30 2 * * *", [30], [2], EVERY, True),
    ("*/15 0-3 * * *", range(0, 60, 15), range(0, 4), EVERY, True),
    ("5,50 1,2,23 * * sun", [5, 50], [1, 2, 23], lambda d: d.isoweekday() == 7, True),
    ("0 2 1,15 * mon", [0], [2], lambda d: d.day in (1, 15) or d.isoweekday() == 1, True),
    ("59 23 L * *", [59], [23], lambda d: (d + timedelta(1)).day == 1, True),
    ("30 * * * *", [30], range(24), EVERY, False),
    ("20 */2 * * *", [20], range(0, 24, 2), EVERY, False),
    ("0 1-23/11 */2 * 6", [0], [1, 12, 23], lambda d: d.day % 2 == 1 and d.isoweekday() == 6, False),
]


def seconds(wall, zone, fold):
    return int(wall.replace(tzinfo=zone, fold=fold).timestamp())


def shown(unix, zone):
    return datetime.fromtimestamp(unix, timezone.utc).astimezone(zone).replace(tzinfo=None, fold=0)


def after_gap(wall, zone):
    """The first minute at which the clock shows wall or a later time, by bisection."""
    low = seconds(wall, zone, 0) - 2 * 86400
    high = low + 4 * 86400
    low, high = low // 60, high // 60
    while high - low > 1:
        middle = (low + high) // 2
        if shown(middle * 60, zone) >= wall:
            high = middle
        else:
            low = middle
    return high * 60


def instants(wall, zone, fixed):
    found = sorted({u for u in (seconds(wall, zone, 0), seconds(wall, zone, 1)) if shown(u, zone) == wall})
    if fixed:
        return found[:1] or [after_gap(wall, zone)]
    return found


def ticks(year, zone, line):
    _, minutes, hours, day, fixed = line
    found = set()
    date = datetime(year, 1, 1)
    while date.year == year:
        if day(date):
            for h in hours:
                for m in minutes:
                    found.update(instants(date.replace(hour=h, minute=m), zone, fixed))
        date += timedelta(1)
    return sorted(found)


def main():
    for name in ZONES:
        zone = ZoneInfo(name)
        for line in LINES:
            row = []
            for year in YEARS:
                list = ticks(year, zone, line)
                digest = hashlib.sha256("".join("%d\n" % u for u in list).encode()).hexdigest()[:8]
                row.append("%d:%s" % (len(list), digest))
            print("%s|%s|%d|%s" % (name, line[0], YEARS[0], " ".join(row)))


if __name__ == "__main__":
    sys.exit(main())
