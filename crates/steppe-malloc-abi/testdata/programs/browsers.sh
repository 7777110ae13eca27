#!/bin/sh
# $1 opens a page that its script changes. Chromium keeps its sandbox, which root must not have.
. "$(dirname "$0")/lib.sh"
need "$1"
short_folder
cat >"$folder/page.html" <<'END'
<!doctype html><title>t</title><p id=p>before</p><script>
const lists = []; for (let i = 0; i < 20000; i++) lists.push(new Array(i % 100).fill(i));
const canvas = document.createElement("canvas"); canvas.width = canvas.height = 500;
const context = canvas.getContext("2d"); for (let i = 0; i < 500; i++) context.fillRect(i, i, i % 9, 9);
document.getElementById("p").textContent = lists.flat().length + " " + context.getImageData(0, 0, 500, 500).data.length;
</script>
END
chmod 644 "$folder/page.html"
HOME=$folder
export HOME
case $1 in
  chromium)
    unprivileged chromium --headless --disable-gpu --disable-dev-shm-usage --no-first-run --user-data-dir="$folder/profile" \
      --virtual-time-budget=5000 --dump-dom "file://$folder/page.html" 2>"$work/log" | grep '<p id'
    ;;
  *)
    unprivileged "$1" --headless --profile "$folder" --screenshot "$folder/page.png" --window-size 400,300 "file://$folder/page.html" \
      >"$work/log" 2>&1
    wc -c <"$folder/page.png"
    ;;
esac
