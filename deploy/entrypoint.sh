#!/bin/sh
# A container's clone, before the flow that works in it. PLUMBLINE_REPOSITORY: what to clone, where PLUMBLINE_HOME (a
# volume, if it shall last) is empty. PLUMBLINE_DVC_REMOTE: DVC's remote for this machine, where it is not that of git.
# PLUMBLINE_MAP_PAGE: folder of the built page of the map.
set -eu
: "${PLUMBLINE_HOME:?the folder of the clone}"
if [ ! -d "$PLUMBLINE_HOME/.git" ]; then
    : "${PLUMBLINE_REPOSITORY:?the repository to clone, because $PLUMBLINE_HOME holds none}"
    # In it, since a volume cannot be moved aside; .git comes last, so a clone that was cut short is none.
    new="$PLUMBLINE_HOME/.new"
    rm -rf "$new"
    mkdir -p "$PLUMBLINE_HOME"
    git clone --quiet --no-checkout "$PLUMBLINE_REPOSITORY" "$new"
    git --git-dir "$new/.git" --work-tree "$PLUMBLINE_HOME" reset --quiet --hard
    mv "$new/.git" "$PLUMBLINE_HOME/.git"
    rmdir "$new"
fi
# The page of the map, which git does not have: stages read it from the clone, and DVC files it with their results.
page="$PLUMBLINE_HOME/src/plumbline/serve/map/page"
for file in "${PLUMBLINE_MAP_PAGE:-}"/app.*; do
    if [ -f "$file" ] && ! cmp --silent "$file" "$page/${file##*/}"; then
        mkdir -p "$page"
        cp "$file" "$page/.new"
        mv "$page/.new" "$page/${file##*/}"
    fi
done
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
