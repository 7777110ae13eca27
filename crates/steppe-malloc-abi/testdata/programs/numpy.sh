#!/bin/sh
. "$(dirname "$0")/lib.sh"
need /usr/bin/python3
/usr/bin/python3 -c 'import numpy' 2>/dev/null || missing "numpy is not installed"
/usr/bin/python3 - <<'END'
import numpy as np
r = np.random.default_rng(7)
a = r.integers(0, 1000, (400, 400))
print(int((a @ a.T).sum()), int(np.sort(a, axis=None)[::1000].sum()))
b = r.random((300, 300))
print(round(float(np.linalg.slogdet(b @ b.T + np.eye(300))[1]), 6))
print(round(float(abs(np.fft.fft(r.random(1 << 18))).sum()), 3))
rows = [np.arange(n, dtype=np.float32) for n in range(3000)]
print(sum(int(row.sum()) for row in rows), np.concatenate(rows).nbytes)
del rows
END
