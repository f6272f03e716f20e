#!/bin/sh
# A container's clone, before the flow that works in it. PLUMBLINE_REPOSITORY: what to clone, where PLUMBLINE_HOME (a
# volume, if it shall last) is empty. PLUMBLINE_DVC_REMOTE: DVC's remote for this machine, where it is not that of git.
set -eu
: "${PLUMBLINE_HOME:?the folder of the clone}"
if [ ! -d "$PLUMBLINE_HOME/.git" ]; then
    : "${PLUMBLINE_REPOSITORY:?the repository to clone, because $PLUMBLINE_HOME holds none}"
    # Under another name first: a clone that was cut short is none.
    rm -rf "$PLUMBLINE_HOME.new"
    git clone --quiet "$PLUMBLINE_REPOSITORY" "$PLUMBLINE_HOME.new"
    rmdir "$PLUMBLINE_HOME" 2>/dev/null || true
    mv "$PLUMBLINE_HOME.new" "$PLUMBLINE_HOME"
fi
cd "$PLUMBLINE_HOME"
if [ -n "${PLUMBLINE_DVC_REMOTE:-}" ]; then
    dvc remote add --local --force --default shared "$PLUMBLINE_DVC_REMOTE"
    if [ -n "${PLUMBLINE_DVC_ENDPOINT:-}" ]; then
        dvc remote modify --local shared endpointurl "$PLUMBLINE_DVC_ENDPOINT"
    fi
fi
# The clone's code, not that of the image.
export PYTHONPATH="$PLUMBLINE_HOME/src:$PLUMBLINE_HOME"
exec "$@"
