#!/bin/sh
. "$(dirname "$0")/lib.sh"
# Not what a path of the user's may have by this name.
[ -x /usr/bin/convert ] || missing "imagemagick is not installed"
/usr/bin/convert -size 900x700 gradient:red-blue -swirl 90 -blur 0x3 -resize 50% a.png
/usr/bin/convert a.png -rotate 33 -modulate 110 -depth 8 b.jpg
/usr/bin/convert a.png b.jpg -append -format '%w %h %#\n' info:
for size in 10 200 1500; do /usr/bin/convert a.png -resize ${size}x${size}! -colors 16 -format '%k %#\n' info:; done
