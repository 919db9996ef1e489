# Keeps one server and its folder, for a process that may be killed at any time. Reads commands from a pipe that only that process
# holds open: when it closes, the server is killed and the folder removed. The folder's path is the first answer.
#
#   start COMMAND   starts the server, shell-quoted; the answer is its process id
#   kill            kills it, if it runs; the answer is `gone`

# An owner that died while an answer was on its way must not take us along. A handler, unlike ignoring, is not inherited by the server.
trap : PIPE

folder=$(mktemp -d "$1") || exit 1
server=

end() {
    [ -n "$server" ] || return 0
    # Processes that left the server's group (PostgreSQL's do) are found as its children.
    children=$(cat "/proc/$server/task/"*/children)
    kill -9 "-$server" "$server" $children
    wait "$server"
    # What libfaketime keeps in memory under the server's id. A server that ends by itself removes it.
    rm -f "/dev/shm/faketime_shm_$server" "/dev/shm/sem.faketime_sem_$server"
    server=
}

echo "$folder"
while IFS= read -r command; do
    case $command in
    "start "*)
        end
        # In a session of its own, so that what it starts can be killed with it; `exec`, so that its id is the one we know.
        eval "exec setsid ${command#start }" </dev/null >>"$folder/log" 2>&1 &
        server=$!
        echo "$server"
        ;;
    kill)
        end
        echo gone
        ;;
    esac
done

end
# PostgreSQL's shared memory outlives it; the seventh line of this file ends with its id. A restart would have removed it.
if [ -r "$folder/data/postmaster.pid" ]; then
    memory=$(sed -n 7p "$folder/data/postmaster.pid")
    ipcrm -m "${memory##* }"
fi
# What is being killed may still finish a system call that makes a file.
for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$folder" && exit 0
    sleep 0.1
done
exit 1
