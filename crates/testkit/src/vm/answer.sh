#!/bin/busybox sh
# One request on standard input, one answer on standard output.
. /about
cr=$(printf '\r')
read -r method path rest
length=0
while read -r name value && [ "$name" != "$cr" ]; do
    [ "$name" != Content-Length: ] || length=${value%"$cr"}
done
answer() { printf 'HTTP/1.0 %s\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' "$1" "${#2}" "$2"; }

note=/data/notes.v$DATA/${path##*/}
case "$method $path" in
    "GET /version") answer "200 OK" "$VERSION" ;;
    "GET /ready")
        if [ "$BEHAVIOUR" = never-ready ]; then answer "503 Service Unavailable" "not yet"; else answer "200 OK" yes; fi ;;
    "GET /config") answer "200 OK" "$(cat /sys/firmware/qemu_fw_cfg/by_name/opt/holdfast/config/raw)" ;;
    "GET /notes/"*) if [ -f "$note" ]; then answer "200 OK" "$(cat "$note")"; else answer "404 Not Found" ""; fi ;;
    "PUT /notes/"*)
        head -c "$length" >"$note.new" && mv "$note.new" "$note" && sync
        answer "200 OK" "" ;;
    *) answer "404 Not Found" "" ;;
esac
