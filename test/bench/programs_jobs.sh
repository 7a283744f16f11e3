#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The jobs of programs.py, run as root inside a Debian tree: jobs.sh NAME...
# Each prints what is the same on every system that works: no times, pids or addresses. Its output,
# with the status, goes to /jobs/out/NAME.out, its nanoseconds to NAME.ns. A job ends at the first
# step that fails, with its status: what must go well stands alone on its line, as the shell goes on
# after a failure on the left of "&&", and what is meant to fail says so (fails_with).
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LC_ALL=C.UTF-8 TERM=xterm GIT_CONFIG_GLOBAL=/dev/null

# Run "$@" until it succeeds, for at most 30 seconds.
until_true() {
	for _ in $(seq 150); do
		"$@" > /dev/null 2>&1 && return 0
		sleep 0.2
	done
	return 1
}

# Run "$2 ...", which is to end with the status $1.
fails_with() {
	expected=$1
	shift
	got=0
	"$@" || got=$?
	[ "$got" = "$expected" ]
}

words() { seq "$1" | awk '{ print "line", $1, ($1 * 7919) % 100003 }'; }

# --- shells and tools ------------------------------------------------------------------------

job_bash() {
	bash -ec 'declare -A n; for i in {1..3000}; do (( n[$((i % 7))] += i )); done
		for k in 0 1 2 3 4 5 6; do echo "$k ${n[$k]}"; done
		f() {
			local x=$1
			(( x < 2 )) && { echo "$x"; return; }
			echo $(( $(f $((x - 1))) + $(f $((x - 2))) ))
		}
		f 7; diff <(seq 5) <(seq 4) || [ $? = 1 ]; trap "echo got it" USR1; kill -USR1 $$'
}

job_dash() {
	dash -ec 'i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done
		echo $i | (read x; echo "$x"); set -- a b; echo $#'
}

job_zsh() {
	zsh -ec 'a=({1..20}); print ${(j:,:)${(On)a}}; print -l /*(/:t) | head -3
		typeset -A h; h[x]=1; print ${(k)h}'
}

job_coreutils() {
	words 20000 > w
	sort -k3n w | sha256sum
	cut -d' ' -f3 w | sort -n | uniq -c | sort -rn | head -2
	tac w | head -1
	split -n 4 w part
	cat part?? | cmp - w
	ls part??
	shuf -n 3 w | wc -l
	join -j 2 w w 2> /dev/null | head -1
	od -An -tx1 -N8 w
	base64 w | md5sum
	numfmt --to=iec 1234567
	dd if=w of=v bs=1k count=4 2> /dev/null
	stat -c '%s %A' v
	factor 1234567890123
}

job_findutils() {
	mkdir -p d/a/b
	touch d/1 d/a/2 d/a/b/3
	ln -s 1 d/l
	find d -type f | sort
	find d -name '[12]' -print0 | sort -z | xargs -0 -n1 basename
	find /usr/share -type f | wc -l
}

job_grep() {
	words 50000 > w
	grep -c 'line.*99' w
	grep -E '^line [0-9]+5 ' w | tail -1
	grep -w root /etc/passwd /etc/group
	grep -P '(\d)\1\1' w | wc -l
}

job_sed() {
	words 20000 | sed -n -e 's/line \([0-9]*\) \(.*\)/\2:\1/;/^9.*7$/p' | md5sum
	printf 'a\nb\nc\n' > s && sed -i 2d s && cat s
}

job_gawk() {
	words 30000 | gawk '{ s[$3 % 10] += $2 } END {
		for (i = 0; i < 10; i++) print i, s[i]
		print strftime("%Y", 0, 1), toupper("x"), gensub(/b/, "c", "g", "abab") }'
}

job_diffutils() {
	words 3000 > a
	sed 's/ 77 / 78 /' a > b
	fails_with 1 diff -u --label a --label b a b
	fails_with 1 cmp a b
	diff3 -m a b a | md5sum
}

job_tar() {
	mkdir t u
	cp -a /usr/share/doc/[a-d]* t
	tar cf t.tar --sort=name t
	tar xf t.tar -C u
	diff -r --no-dereference t u/t && tar tf t.tar | wc -l
}

job_gzip() {
	words 100000 > w
	gzip -9k w
	gzip -l w.gz | awk 'NR == 2 { print $2 }'
	zcat w.gz | cmp - w && echo same
}

job_xz() { words 20000 > w && xz -3k w && xz -dc w.xz | cmp - w && echo same; }
job_zstd() { words 100000 > w && zstd -q -T2 w && zstd -dqc w.zst | cmp - w && echo same; }

# --- languages -------------------------------------------------------------------------------

job_perl() {
	perl -e 'my %h; $h{$_ % 97} .= $_ for 1 .. 50000;
		print join(",", map { length $h{$_} } sort { $a <=> $b } keys %h), "\n";
		my $p = fork // die; exit 3 unless $p; waitpid $p, 0; print $? >> 8, "\n";
		$_ = "a1b22"; print "$1;" while /(\d+)/g; print "\n"'
}

job_python() {
	cat > p.py <<- 'X'
		import concurrent.futures, hashlib, json, multiprocessing, os, sqlite3, subprocess
		import tempfile
		db = sqlite3.connect("x.db")
		db.execute("create table t(a, b)")
		db.executemany("insert into t values(?, ?)", ((i, str(i * i)) for i in range(5000)))
		db.commit()
		print(db.execute("select count(*), sum(length(b)) from t").fetchone())
		print(subprocess.run(["tr", "a", "b"], input=b"banana", capture_output=True).stdout)
		with concurrent.futures.ThreadPoolExecutor(4) as pool:
		    print(sum(pool.map(lambda x: x * x, range(1000))))
		with multiprocessing.Pool(2) as pool:
		    print(pool.map(abs, [-1, -2, 3]))
		print(hashlib.sha256(json.dumps(list(range(10000))).encode()).hexdigest()[:16])
		with tempfile.TemporaryFile() as f:
		    f.write(b"x" * 100000)
		    f.seek(-3, os.SEEK_END)
		    print(f.read())
	X
	python3 p.py
}

job_numpy() {
	python3 -c 'import numpy as n; a = n.arange(250000, dtype=float).reshape(500, 500) % 17
print(round(float((a @ a.T).trace()), 3), n.linalg.matrix_rank(n.eye(50)))
print(n.sort(a.ravel())[::50000].tolist())'
}

job_lua() {
	lua5.4 -e 'local t = {} for i = 1, 100000 do t[i] = i * 7919 % 100003 end table.sort(t)
		print(t[1], t[50000], #t, string.format("%5.2f", 1 / 3))'
}

job_ruby() {
	ruby -e 'require "digest"; h = Hash.new(0); 50000.times { |i| h[i % 7] += i }; p h
		puts (1..8).map { |x| Thread.new { x * x } }.sum(&:value)
		puts Digest::MD5.hexdigest("x" * 1000), `echo sub`'
}

c_main() {
	cat <<- 'X'
		#include <stdio.h>
		int part(int);
		int main(void)
		{
			long s = 0;
			for (int i = 0; i < 40; i++)
				s += part(i);
			printf("%ld\n", s);
			return 0;
		}
	X
}

job_gcc() {
	c_main > m.c
	echo 'int part(int i) { return i * i; }' > p.c
	gcc -O2 -Wall m.c p.c -o m
	./m
	gcc -O0 -S p.c -o - | grep -c imul
	echo 'int f( {' | gcc -x c -c - 2>&1 | tail -1
}

job_openmp() {
	cat > o.c <<- 'X'
		#include <omp.h>
		#include <stdio.h>
		int main(void)
		{
			double s = 0;
			omp_set_num_threads(4);
		#pragma omp parallel for reduction(+ : s)
			for (int i = 1; i <= 2000000; i++)
				s += 1.0 / i / i;
			printf("%.9f\n", s);
			return 0;
		}
	X
	gcc -O2 -fopenmp o.c -o o && ./o
}

job_make() {
	c_main > m.c
	echo 'int part(int i) { return i + 1; }' > p.c
	for i in $(seq 12); do echo "int f$i(void) { return $i; }" > "f$i.c"; done
	printf 'm: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\t@gcc $^ -o $@\n' > Makefile
	printf '%%.o: %%.c\n\t@gcc -O1 -c $< -o $@\n' >> Makefile
	make -s -j2 && ./m && make
}

job_cmake() {
	c_main > m.c
	echo 'int part(int i) { return 2 * i; }' > p.c
	printf 'cmake_minimum_required(VERSION 3.10)\nproject(x C)\nadd_executable(x m.c p.c)\n' \
		> CMakeLists.txt
	cmake -S . -B b > log && cmake --build b > log2 && ./b/x
}

job_go() {
	cat > m.go <<- 'X'
		package main

		import (
			"fmt"
			"net"
			"sync"
		)

		func main() {
			var w sync.WaitGroup
			c := make(chan int, 8)
			for i := 0; i < 50; i++ {
				w.Add(1)
				go func(i int) { defer w.Done(); c <- i * i }(i)
			}
			go func() { w.Wait(); close(c) }()
			s := 0
			for x := range c {
				s += x
			}
			l, _ := net.Listen("tcp", "127.0.0.1:0")
			go func() { k, _ := l.Accept(); fmt.Fprintln(k, "hello"); k.Close() }()
			k, e := net.Dial("tcp", l.Addr().String())
			b := make([]byte, 6)
			k.Read(b)
			fmt.Println(s, e, string(b[:5]))
		}
	X
	GOFLAGS=-p=1 GOCACHE=$PWD/cache go run m.go
}

job_rust() {
	cat > r.rs <<- 'X'
		use std::thread;
		fn main() {
		    let v: Vec<_> = (0..8u64)
		        .map(|i| thread::spawn(move || (0..10000).map(|x| x * i).sum::<u64>()))
		        .collect();
		    println!("{}", v.into_iter().map(|t| t.join().unwrap()).sum::<u64>());
		}
	X
	rustc -O r.rs && ./r
}

job_java() {
	cat > J.java <<- 'X'
		import java.util.*;
		import java.util.stream.*;

		public class J {
			public static void main(String[] a) throws Exception {
				Thread[] t = new Thread[4];
				long[] s = new long[4];
				for (int i = 0; i < 4; i++) {
					final int k = i;
					t[i] = new Thread(() -> {
						List<byte[]> l = new ArrayList<>();
						for (int j = 0; j < 3000; j++) {
							l.add(new byte[8192]);
							s[k] += l.get(l.size() - 1).length;
							if (l.size() > 100)
								l.clear();
						}
					});
					t[i].start();
				}
				for (Thread x : t)
					x.join();
				Map<Integer, Long> m = IntStream.range(0, 1000).boxed().collect(
					Collectors.groupingBy(x -> x % 3, Collectors.counting()));
				System.out.println(Arrays.stream(s).sum() + " " + m);
			}
		}
	X
	java -Xmx128m J.java
}

job_node() {
	cat > n.js <<- 'X'
		const http = require("http"), z = require("zlib");
		const s = http.createServer((q, r) => r.end("hello " + q.url));
		s.listen(0, "127.0.0.1", () => http.get(
			{ host: "127.0.0.1", port: s.address().port, path: "/x" }, (r) =>
			r.on("data", (d) => { console.log(String(d)); s.close(); })));
		console.log(z.gunzipSync(z.gzipSync("abc".repeat(1000))).length);
		console.log([3, 1, 2].sort().join());
		require("child_process").exec("echo sub", (e, o) => console.log(o.trim()));
	X
	node n.js > o
	sort o
}

job_octave() {
	octave-cli --norc --eval 'A = magic(6); printf("%d %.4f\n", rank(A), det(A(1:3, 1:3)));
		x = linspace(0, 1, 1000); printf("%.6f\n", trapz(x, exp(x)));' 2> /dev/null
}

# --- for developers --------------------------------------------------------------------------

job_git() {
	export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
	git init -q -b main r
	cd r
	git config user.email a@b
	git config user.name n
	for i in $(seq 8); do
		words "$((i * 100))" > f
		git add f
		git commit -qm "c$i"
	done
	git rev-parse HEAD
	git checkout -qb side HEAD~3
	echo x > g
	git add g
	git commit -qm side
	git merge -q main -m merge
	git log --oneline | wc -l
	cd ..
	git clone -q r s
	cd s
	git gc -q
	git fsck 2> /dev/null
	git status -s
	git blame f | wc -l
}

job_openssl() {
	openssl genpkey -algorithm ed25519 -out k 2> /dev/null
	openssl req -x509 -key k -subj /CN=x -days 1 -out c 2> /dev/null
	openssl x509 -in c -noout -subject
	echo hi > m
	openssl pkeyutl -sign -inkey k -rawin -in m -out s
	openssl pkeyutl -verify -inkey k -rawin -in m -sigfile s
	words 1000 | openssl enc -aes-256-cbc -pass pass:x -pbkdf2 -nosalt | openssl dgst -sha512
}

job_vim() {
	words 100 > v
	vim.tiny -es -u NONE -c '%s/line/LINE/g' -c '1,98d' -c wq v
	cat v
}

# It writes "changed" into a file in a terminal of tmux.
job_nano() {
	tmux -f /dev/null -L nano new-session -d -s n -x 80 -y 24 'nano -I f'
	until_true sh -c "tmux -L nano capture-pane -p -t n | grep -q 'GNU nano'"
	tmux -L nano send-keys -t n changed C-o Enter
	until_true test -s f
	tmux -L nano send-keys -t n C-x
	cat f
}

job_tmux() {
	tmux -f /dev/null new-session -d -s x -x 60 -y 10 sh
	tmux send-keys -t x 'echo $((6 * 7))' Enter
	until_true sh -c "tmux capture-pane -p -t x | grep -q '^42'"
	tmux capture-pane -p -t x | grep -m1 '^42'
	tmux list-windows -t x -F '#{window_width}x#{window_height}'
	tmux kill-server
}

job_gdb() {
	cat > g.c <<- 'X'
		int f(int x) { return x * 2; }
		int main(void)
		{
			int s = 0;
			for (int i = 0; i < 3; i++)
				s += f(i);
			return s;
		}
	X
	gcc -g -O0 g.c -o g
	gdb -nx -batch -ex 'break f' -ex run -ex bt -ex 'print x' -ex finish -ex 'watch s' \
		-ex continue -ex delete -ex continue ./g 2>&1 |
		grep -E '^(#|\$|Value|Hardware|Old|New|\[Inf)' |
		sed 's/0x[0-9a-f]*/ADDR/g; s/process [0-9]*/process N/'
}

job_strace() {
	fails_with 3 strace -f -e trace=execve,exit_group -o t \
		sh -c 'cat /etc/hostname > /dev/null; exit 3'
	sed -E 's/^[0-9]+ +//' t | grep -cE '^execve|exit_group\(3\)'
	strace -c -o u true && tail -1 u | awk '{ print $NF }'
}

# --- services --------------------------------------------------------------------------------

job_redis() {
	cli="redis-cli -p 6400"
	redis-server --port 6400 --unixsocket "$PWD/r.sock" --daemonize yes --dir "$PWD" --save '' \
		> /dev/null
	until_true $cli ping
	$cli set a 1
	redis-cli -s r.sock incr a
	$cli eval 'local s = 0 for i = 1, 1000 do s = s + i end return s' 0
	redis-benchmark -q -p 6400 -n 2000 -c 10 -t set,get,lpush --csv | cut -d, -f1
	$cli dbsize
	$cli bgsave > /dev/null
	until_true test -s dump.rdb
	echo saved
	$cli shutdown nosave
}

job_memcached() {
	memcached -u root -d -p 11300 -P "$PWD/pid"
	until_true memcping --servers=127.0.0.1:11300
	words 10 > key
	memccp --servers=127.0.0.1:11300 key
	memccat --servers=127.0.0.1:11300 key | md5sum
	kill "$(cat pid)"
}

job_nginx() {
	mkdir www
	for i in $(seq 200); do words "$i" > "www/$i"; done
	cat > conf <<- X
		worker_processes 2;
		pid $PWD/pid;
		error_log $PWD/err;
		events {}
		http { access_log off; server { listen 8081; root $PWD/www; sendfile on; } }
	X
	nginx -c "$PWD/conf"
	until_true curl -sf http://127.0.0.1:8081/1
	for i in $(seq 1 20 200); do curl -s "http://127.0.0.1:8081/$i"; done | md5sum
	for i in none 7; do curl -s -o got -w '%{http_code} ' "http://127.0.0.1:8081/$i"; done
	curl -s -r 5-12 http://127.0.0.1:8081/3
	kill "$(cat pid)"
}

job_postgres() {
	b=/usr/lib/postgresql/15/bin
	mkdir pg run
	chown postgres pg run
	pg() { su postgres -s /bin/sh -c "cd $PWD && $1"; }
	pg "$b/initdb -D pg -A trust" > log
	grep -c '^Success' log
	pg "$b/pg_ctl -s -w -t 120 -D pg -o '-k $PWD/run -p 5433' -l pg/log start"
	echo started
	cat > q.sql <<- 'X'
		create table t(i int primary key, v text);
		insert into t select i, md5(i::text) from generate_series(1, 3000) i;
		select count(*), sum(length(v)) from t;
		select v from t where i = 77;
	X
	pg "psql -h $PWD/run -p 5433 -At -v ON_ERROR_STOP=1" < q.sql
	pg "$b/pgbench -h $PWD/run -p 5433 -i -q" > log 2>&1
	pg "$b/pgbench -h 127.0.0.1 -p 5433 -t 30 -c 3 -j 2" 2>&1 | grep -E 'processed|failed'
	pg "$b/pg_ctl -s -D pg -m fast stop" && echo stopped
}

job_ssh() {
	mkdir -p /run/sshd /root/.ssh
	chmod 700 /root/.ssh
	ssh-keygen -q -t ed25519 -N '' -f k
	ssh-keygen -q -t ed25519 -N '' -f h
	cp k.pub /root/.ssh/authorized_keys
	/usr/sbin/sshd -p 2222 -h "$PWD/h" -o PidFile="$PWD/pid"
	until_true test -s pid
	there="ssh -p 2222 -i k -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
	there="$there -o BatchMode=yes -q"
	fails_with 7 $there root@127.0.0.1 'echo in; id -un; exit 7'
	$there -tt root@127.0.0.1 'test -t 0 && echo a terminal'
	words 20000 | $there root@127.0.0.1 md5sum
	kill "$(cat pid)"
}

job_supervisor() {
	cat > conf <<- X
		[supervisord]
		logfile=$PWD/log
		pidfile=$PWD/pid
		[unix_http_server]
		file=$PWD/sock
		[rpcinterface:supervisor]
		supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
		[supervisorctl]
		serverurl=unix://$PWD/sock
		[program:sleepy]
		command=sleep 1000
		startsecs=0
	X
	supervisord -c conf 2> /dev/null
	until_true sh -c 'supervisorctl -c conf status | grep -q RUNNING'
	supervisorctl -c conf status | awk '{ print $1, $2 }'
	supervisorctl -c conf stop sleepy
	supervisorctl -c conf shutdown
}

# --- the system ------------------------------------------------------------------------------

job_imagemagick() {
	convert -size 200x200 gradient:red-blue -rotate 30 -resize 50% x.png
	identify -format '%w %h %m\n' x.png
	convert x.png -depth 8 rgb:- | md5sum
}

job_apt() {
	apt-cache policy bash | sed -n 1p
	dpkg -l | grep -c '^ii'
	dpkg -S /bin/ls /usr/bin/env
	dpkg --audit
	mkdir -p p/DEBIAN p/usr/share/x
	echo hi > p/usr/share/x/f
	printf '%s\n' 'Package: tiny' 'Version: 1' 'Architecture: all' 'Maintainer: a <a@b>' \
		'Description: d' > p/DEBIAN/control
	dpkg-deb -b p tiny.deb > /dev/null
	dpkg -i tiny.deb > log 2>&1
	cat /usr/share/x/f
	dpkg -r tiny > log 2>&1
	fails_with 2 ls /usr/share/x/f
}

job_stress() {
	stress-ng --vm 1 --vm-bytes 16M --vm-ops 200 --fork 1 --fork-ops 100 --pipe 1 \
		--pipe-ops 3000 --mutex 1 --mutex-ops 1000 --sock 1 --sock-ops 20 \
		--timeout 60 2>&1 | grep -c successful
}

for name in "$@"; do
	dir=/srv/$name
	mkdir -p "$dir" && cd "$dir" || continue
	begin=$(date +%s%N)
	{
		(
			set -e
			"job_$name"
		)
		echo "status $?"
	} > "/jobs/out/$name.out" 2>&1 < /dev/null
	echo $(($(date +%s%N) - begin)) > "/jobs/out/$name.ns"
	cd / && rm -rf "$dir"
done
sync
