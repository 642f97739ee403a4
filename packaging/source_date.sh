# Sourced by what makes packages: SOURCE_DATE_EPOCH is the time of all files in them, MUSTER_COMMIT what was packed.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || {
    echo "$(basename "$0"): this is no clone of git: set SOURCE_DATE_EPOCH to the seconds since 1970 that files should have" >&2
    exit 1
  }
fi
MUSTER_COMMIT=${MUSTER_COMMIT:-$(git rev-parse HEAD 2>/dev/null || true)}
export SOURCE_DATE_EPOCH MUSTER_COMMIT
