#!/bin/sh
. "$(dirname "$0")/lib.sh"
need soffice
printf '<h1>Title</h1><table><tr><td>a</td><td>b</td></tr></table><p>%s</p>' "$(seq 1 2000 | tr '\n' ' ')" >a.html
HOME=$work soffice --headless --convert-to txt:Text a.html >log 2>&1
sha256sum a.txt
