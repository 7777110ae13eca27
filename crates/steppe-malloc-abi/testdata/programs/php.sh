#!/bin/sh
. "$(dirname "$0")/lib.sh"
need php
php "$here/work.php"
php -r 'for ($i = 0; $i < 200000; $i++) $a[] = str_repeat("x", $i % 300); echo count($a), strlen(implode($a)), "\n";'
php -m | sort | head -n 5
