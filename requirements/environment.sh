# Make an environment: `sh requirements/environment.sh PYTHON FOLDER`. Where that fails, say why, and exit with 2.
# Without arguments: print the Python to make it with.
set -u
project=$(dirname "$0")/../pyproject.toml
lowest=$(sed -n 's/^requires-python = ">=3\.\([0-9]*\),.*/\1/p' "$project")
beyond=$(sed -n 's/^requires-python = .*,<3\.\([0-9]*\)"/\1/p' "$project")
fits="import sys; sys.exit(not (3, $lowest) <= sys.version_info[:2] < (3, $beyond))"
makes="import ensurepip, venv"

refuse() {
    echo "$*" >&2
    exit 2
}

if [ $# -eq 0 ]; then
    # One that fits and can make an environment, else what gives the best message. pyenv has names that do not run.
    names="$(seq -f 'python3.%g' "$lowest" $((beyond - 1))) python3 /usr/bin/python3"
    for check in "$makes; $fits" "$fits" ""; do
        for name in $names; do
            if "$name" -c "$check" 2> /dev/null; then
                command -v "$name"
                exit
            fi
        done
    done
    echo python3
    exit
fi

python=$1 folder=$2
where="Say where one is: make install PYTHON=/path/to/python3.$lowest"
if [ -e "$folder/.run" ]; then
    refuse "The Python that $folder was made with is not there any more. Run \`make clean\`, and the same command again."
fi
"$python" -c "" 2> /dev/null || refuse "There is no Python that runs as $python. $where"
"$python" -c "$fits" ||
    refuse "Python 3.$lowest to 3.$((beyond - 1)) is needed; $python is $("$python" --version 2>&1). $where"
"$python" -c "$makes" 2> /dev/null ||
    refuse "$python cannot make environments. On Debian and Ubuntu, install its package:" \
        "apt install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
if ! "$python" -m venv "$folder"; then
    rm -f "$folder/bin/python"
    refuse "The environment $folder could not be made, for the reason above. Mend that, and run the same command again."
fi
