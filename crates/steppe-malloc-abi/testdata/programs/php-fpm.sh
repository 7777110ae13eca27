#!/bin/sh
# Workers that a threaded or unthreaded master forks, behind nginx.
. "$(dirname "$0")/lib.sh"
fpm=$(find /usr/sbin /usr/local/sbin -name 'php-fpm*' 2>/dev/null | sort -V | tail -n 1)
[ -n "$fpm" ] || missing "php-fpm is not installed"
need nginx curl
short_folder
cp "$here/work.php" "$folder/work.php"
chmod 644 "$folder/work.php"
chmod 755 "$folder"
cat >"$folder/fpm.conf" <<END
[global]
error_log = /dev/stderr
daemonize = no
[www]
listen = $folder/fpm
listen.mode = 0666
user = nobody
group = nogroup
pm = static
pm.max_children = 3
pm.max_requests = 20
END
cat >"$folder/nginx.conf" <<END
daemon off; master_process off; error_log stderr; pid $folder/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path $work/t; proxy_temp_path $work/t; fastcgi_temp_path $work/t; uwsgi_temp_path $work/t; scgi_temp_path $work/t;
  server {
    listen unix:$folder/nginx;
    location / {
      fastcgi_pass unix:$folder/fpm;
      fastcgi_param SCRIPT_FILENAME $folder/work.php;
      fastcgi_param REQUEST_METHOD \$request_method;
      fastcgi_param CONTENT_LENGTH \$content_length;
    }
  }
}
END
"$fpm" -F -y "$folder/fpm.conf" >fpm.log 2>&1 &
server=$!
nginx -p "$folder" -e stderr -c "$folder/nginx.conf" >nginx.log 2>&1 &
front=$!
server="$server $front"
ask() { curl --silent --show-error --fail --unix-socket "$folder/nginx" "$@"; }
await ask http://h/
for round in 1 2 3 4; do ask --parallel --parallel-max 3 "http://h/$round?[1-15]" | sort | uniq -c; done
kill -QUIT ${server% *} "$front"
wait ${server% *} && echo ended
wait "$front" && echo ended
