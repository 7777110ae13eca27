#!/bin/sh
. "$(dirname "$0")/lib.sh"
need ffmpeg
quiet() { ffmpeg -hide_banner -loglevel error -nostdin -flags +bitexact -fflags +bitexact "$@"; }
quiet -f lavfi -i testsrc2=size=640x360:rate=25:duration=4 -f lavfi -i sine=frequency=440:duration=4 \
  -c:v mpeg4 -threads 4 -c:a aac -flags +bitexact -fflags +bitexact -y a.mkv
quiet -i a.mkv -map 0:v -f md5 -
quiet -i a.mkv -map 0:v -vf scale=320:180,reverse,hue=h=30 -f framemd5 - | tail -n 3
quiet -i a.mkv -map 0:a -ar 16000 -f md5 -
