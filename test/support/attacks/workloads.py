"""Workloads of guests in tests of the abuse watch, harmful and honest ones. All of them have limits.

Run it inside a network namespace: workloads.py NAME ARGUMENTS... It uses only the standard library.
"""
import random
import resource
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time


def family_of(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def talk(host, port, data=b"", timeout=1.0):
    """Connects, sends data and reads until the peer closes the connection. Returns whether this succeeded."""
    with socket.socket(family_of(host), socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout)
        try:
            sock.connect((host, port))
            if data:
                sock.sendall(data)
            while sock.recv(65536):
                pass
            return True
        except OSError:
            return False


def listen(port, answer):
    """Runs a TCP server for IPv4 and IPv6. It calls `answer` with each connection in a thread of its own."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    sock = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
    print("ready", flush=True)
    while True:
        conn, _ = sock.accept()
        threading.Thread(target=lambda c=conn: quietly(answer, c), daemon=True).start()


def quietly(answer, conn):
    try:
        conn.settimeout(5)
        answer(conn)
    except OSError:
        pass
    finally:
        conn.close()


def web(port):
    """Answers every request with some bytes."""

    def answer(conn):
        conn.recv(4096)
        conn.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 2000)

    listen(int(port), answer)


def login(port):
    """Runs a login server that rejects every password with a short answer."""

    def answer(conn):
        conn.sendall(b"220 login\r\n")
        while True:
            line = conn.recv(4096)
            if not line:
                return
            conn.sendall(b"530 wrong\r\n")

    listen(int(port), answer)


def smtp(port):
    """Accepts mail and discards it."""

    def answer(conn):
        conn.sendall(b"220 sink ESMTP\r\n")
        data = False
        for line in conn.makefile("rb"):
            if data:
                if line == b".\r\n":
                    data = False
                    conn.sendall(b"250 ok\r\n")
                continue
            verb = line[:4].upper()
            if verb == b"DATA":
                data = True
                conn.sendall(b"354 go on\r\n")
            elif verb == b"QUIT":
                conn.sendall(b"221 bye\r\n")
                return
            else:
                conn.sendall(b"250 ok\r\n")

    listen(int(port), answer)


def pool(port):
    """Runs a mining pool that only answers the first message of a client."""

    def answer(conn):
        conn.recv(4096)
        conn.sendall(b'{"id":1,"result":[],"error":null}\n')
        conn.recv(4096)

    listen(int(port), answer)


def socks(port, way="0"):
    """Runs a SOCKS 5 proxy that connects to nothing. It accepts everybody, or with WAY 2 requires a password."""

    def answer(conn):
        conn.recv(512)
        conn.sendall(bytes((5, int(way))))
        conn.recv(512)

    listen(int(port), answer)


def amplifier(port, size, packets):
    """Answers every datagram with many datagrams of `size` bytes."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind(("::", int(port)))
    print("ready", flush=True)
    while True:
        _, peer = sock.recvfrom(2048)
        for _ in range(int(packets)):
            sock.sendto(b"y" * int(size), peer)


def forged(source, target, port, payload, rate, seconds):
    """Sends UDP requests with the forged source address SOURCE at a given rate. PAYLOAD is in hexadecimal."""
    data = bytes.fromhex(payload)
    family = family_of(source)
    src, dst = socket.inet_pton(family, source), socket.inet_pton(family, target)
    head = struct.pack("!HHHH", 40000, int(port), 8 + len(data), 0)
    if family == socket.AF_INET:
        packet = struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 64, 17, 0) + src + dst + head + data
    else:
        total = sum_of(src + dst + struct.pack("!II", 8 + len(data), 17) + head + data) or 0xFFFF
        head = head[:6] + struct.pack("!H", total)
        packet = struct.pack("!IHBB", 6 << 28, 8 + len(data), 17, 64) + src + dst + head + data
    sock = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for _ in ticks(rate, seconds):
        sock.sendto(packet, (target, 0))


def sum_of(data):
    """Returns the Internet checksum (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def keep_in_memcached(name, size):
    """Waits until the memcached of this machine answers, and stores a value of SIZE bytes in it."""
    while True:
        try:
            with socket.create_connection(("127.0.0.1", 11211), 2) as sock:
                sock.sendall(b"set %s 0 0 %d\r\n" % (name.encode(), int(size)) + b"v" * int(size) + b"\r\n")
                assert sock.recv(64) == b"STORED\r\n"
                print("stored", flush=True)
                return
        except ConnectionRefusedError:
            time.sleep(0.05)


def names(port):
    """Answers every datagram with one datagram."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO: answers come from the requested address
    sock.bind(("0.0.0.0", int(port)))
    print("ready", flush=True)
    while True:
        data, control, _, peer = sock.recvmsg(2048, 256)
        reply = [(level, kind, value[:4] + value[8:12] + b"\0" * 4) for level, kind, value in control]
        sock.sendmsg([data + b"z" * 60], reply, 0, peer)


def guess(host, port, count):
    """Tries short logins, one after another."""
    for index in range(int(count)):
        talk_line(host, int(port), b"PASS %d\r\n" % index)


def talk_line(host, port, line):
    with socket.socket(family_of(host), socket.SOCK_STREAM) as sock:
        sock.settimeout(2)
        try:
            sock.connect((host, port))
            sock.recv(512)
            sock.sendall(line)
            sock.recv(512)
        except OSError:
            pass


def mine(host, port):
    talk(host, int(port), b'{"id":1,"method":"mining.subscribe","params":["miner/1.0"]}\n', 5)


def through(host, port):
    """Connects to a SOCKS proxy as a client."""
    with socket.socket(family_of(host), socket.SOCK_STREAM) as sock:
        sock.settimeout(5)
        sock.connect((host, int(port)))
        sock.sendall(b"\x05\x01\x00")
        sock.recv(16)


def request(host, port, count, seconds):
    """Sends datagrams evenly over time, and reads the answers."""
    sock = socket.socket(family_of(host), socket.SOCK_DGRAM)
    sock.setblocking(False)
    for _ in range(int(count)):
        sock.sendto(b"stats\r\n", (host, int(port)))
        end = time.monotonic() + float(seconds) / int(count)
        while time.monotonic() < end:
            try:
                sock.recv(65536)
            except OSError:
                time.sleep(0.001)


def attempt(prefix, ports, rate, seconds, timeout="0.3"):
    """Connects to ports FIRST-LAST of an address at a given rate, without waiting for results."""
    first, last = (int(part) for part in ports.split("-"))
    end = time.monotonic() + float(seconds)
    port = first
    kept = []
    while time.monotonic() < end and port <= last:
        sock = socket.socket(family_of(prefix), socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.connect_ex((prefix, port))
        kept = kept[-50:] + [sock]
        port += 1
        time.sleep(1 / float(rate))


def crawl(network, hosts, dead, rate, seconds):
    """Requests pages from many hosts, some of which are dead. NETWORK and DEAD are prefixes of /24."""
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        if random.random() < 0.05:
            host = f"{dead}.{random.randint(1, int(hosts))}"
        else:
            host = f"{network}.{random.randint(1, int(hosts))}"
        threading.Thread(target=talk, args=(host, 80, b"GET / HTTP/1.0\r\n\r\n", 3), daemon=True).start()
        time.sleep(1 / float(rate))


def saturate(rate, seconds, *hosts):
    """Creates all sampled events at each host at a given rate: refusals, logins, mail, errors, first bytes."""
    tcp = [4444, 22, 25, 80]
    kept = []
    for _ in ticks(rate, seconds):
        for host in hosts:
            for port in tcp:
                sock = socket.socket(family_of(host), socket.SOCK_STREAM)
                sock.setblocking(False)
                sock.connect_ex((host, port))
                kept.append((sock, port))
            with socket.socket(family_of(host), socket.SOCK_DGRAM) as sock:
                sock.sendto(b"x", (host, 4445))
        while len(kept) > 12 * len(hosts):
            sock, port = kept.pop(0)
            try:
                if port == 80:
                    sock.send(b"{")
            except OSError:
                pass
            sock.close()


def ticks(rate, seconds):
    """Yields at an even rate. After a delay it yields faster until it has caught up."""
    start = time.monotonic()
    for count in range(int(float(rate) * float(seconds))):
        wait = start + count / float(rate) - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        yield count
        if time.monotonic() > start + float(seconds):
            return


def fetch(host, port, rate, seconds):
    """Opens short connections to one server, like a connection pool or a proxy."""
    for _ in ticks(rate, seconds):
        talk(host, int(port), b"GET / HTTP/1.0\r\n\r\n", 3)


def web_clients(host, port, clients, rate, seconds):
    """Sends requests over persistent connections, like a load balancer."""
    share = float(rate) / int(clients)
    work = lambda: one_web_client(host, int(port), share, seconds)
    threads = [threading.Thread(target=work) for _ in range(int(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_web_client(host, port, rate, seconds):
    sock = None
    for count in ticks(rate, seconds):
        try:
            if sock is None or count % 100 == 0:
                sock = socket.create_connection((host, port), 3)
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            sock.recv(65536)
        except OSError:
            sock = None


def stream(host, port, mbit, seconds):
    """Sends datagrams, like a video or a backup. They are not answered."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((host, int(port)))
    payload = b"v" * 1400
    at_once = 20
    for _ in ticks(float(mbit) * 125000 / 1400 / at_once, seconds):
        for _ in range(at_once):
            try:
                sock.send(payload)
            except OSError:
                time.sleep(0.001)


def tunnel(port):
    """Sends two packets for each received one, like a download through a VPN."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("0.0.0.0", int(port)))
    print("ready", flush=True)
    while True:
        _, peer = sock.recvfrom(2048)
        for _ in range(2):
            sock.sendto(b"t" * 1350, peer)


def download(host, port, mbit, seconds):
    """Acknowledges the packets of `tunnel`, so that its rate stays high."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((host, int(port)))
    sock.setblocking(False)
    at_once = 10
    for _ in ticks(float(mbit) * 125000 / 2700 / at_once, seconds):
        for _ in range(at_once):
            try:
                sock.send(b"a" * 80)
                while sock.recv(2048):
                    pass
            except OSError:
                pass


def sink(port):
    """Receives datagrams and discards them."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("0.0.0.0", int(port)))
    buffer = bytearray(65536)
    while True:
        sock.recv_into(buffer)


def resolve(network, hosts, rate, seconds):
    """Queries many name servers, which answer."""
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(1)
            sock.sendto(b"q" * 40, (f"{network}.{random.randint(1, int(hosts))}", 53))
            try:
                sock.recv(2048)
            except OSError:
                pass
        time.sleep(1 / float(rate))


def peers(network, count, seconds):
    """Connects to peers of a torrent at different ports; all of them are offline."""
    kept = []
    for index in range(int(count)):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.connect_ex((f"{network}.{1 + index % 250}", 10000 + (index * 7919) % 50000))
        kept = kept[-60:] + [sock]
        time.sleep(float(seconds) / int(count))


def node(network, port, rate, seconds):
    """Searches for peers, like a node of a cryptocurrency. Most of the peers are offline."""
    kept = []
    for count in ticks(rate, seconds):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.connect_ex((f"{network}.{1 + count % 250}", int(port)))
        kept = kept[-20:] + [sock]


def run_briefly(*command):
    """Runs a command. If it hangs, it is killed, because the next command is due."""
    try:
        subprocess.run(command, check=False, stdin=subprocess.DEVNULL, timeout=10)
    except subprocess.TimeoutExpired:
        pass


def mail(host, rate, seconds):
    """Sends mail with swaks at an even rate."""
    addresses = ["--from", "a@example.org", "--to", "b@example.org"]
    for _ in ticks(rate, seconds):
        run_briefly("swaks", "--silent", "3", "--server", host, *addresses)


def log_in(network, hosts, rate, seconds, *ssh):
    """Runs short commands on many machines by SSH. The remaining arguments are the program ssh and its options."""
    for count in ticks(rate, seconds):
        host = f"{network}.{2 + count % int(hosts)}"
        run_briefly(*ssh, host, "true")


def knock(host, port, rate, seconds):
    """Connects to a SOCKS proxy repeatedly, at an even rate."""
    for _ in ticks(rate, seconds):
        try:
            through(host, port)
        except OSError:
            pass


def monitor(up, down, seconds):
    """Checks two machines every second, one of which is down."""
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for host in (up, down):
            for port in (22, 80, 443):
                threading.Thread(target=talk, args=(host, port, b"", 2), daemon=True).start()
        time.sleep(1)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
