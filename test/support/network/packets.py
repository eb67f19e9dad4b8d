"""Small network tools for tests: an echo server, a client, raw frames, a sniffer and a port scan.

Run it inside a network namespace. It uses only the standard library.
"""
import ctypes
import errno
import os
import re
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time


def listeners(ports):
    """Yields IPv4 and IPv6 sockets with their protocols, for ports such as tcp:22 udp:53 tcp:3000-3999."""
    for port in ports:
        kind, numbers = port.split(":")
        first, _, last = numbers.partition("-")
        for number in range(int(first), int(last or first) + 1):
            for family, any_address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
                sock = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind((any_address, number))
                if kind == "tcp":
                    sock.listen(64)
                yield sock, kind


def serve(name, *ports):
    """Answers every request with "NAME peer-address". Ports are given as tcp:22 udp:53 tcp:3000-3999."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    sel = selectors.DefaultSelector()
    for sock, kind in listeners(ports):
        sel.register(sock, selectors.EVENT_READ, kind)
    print("ready", flush=True)
    while True:
        for key, _ in sel.select():
            if key.data == "tcp":
                conn, peer = key.fileobj.accept()
                conn.sendall(f"{name} {peer[0]}".encode())
                conn.close()
            else:
                data, peer = key.fileobj.recvfrom(2048)
                # The answer contains the request, because `stream` numbers its requests.
                asked = f" {data.decode()}" if data.isdigit() else ""
                key.fileobj.sendto(f"{name} {peer[0]}{asked}".encode(), peer)


def ask(kind, host, port, sport="0", timeout="1"):
    """Sends a request to `serve` and prints its answer; without an answer it prints nothing."""
    family, any_address = (socket.AF_INET6, "::") if ":" in host else (socket.AF_INET, "0.0.0.0")
    sock = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    sock.settimeout(float(timeout))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((any_address, int(sport)))
    try:
        # getaddrinfo accepts the scope of a link-local address, as in fe80::1%eth0.
        sock.connect(socket.getaddrinfo(host, int(port), family)[0][4])
        print(receive(sock, kind, float(timeout)))
    except OSError:
        pass


def receive(sock, kind, timeout):
    """Returns the answer of a connected socket. Sends the datagram again each second, because it may be lost."""
    if kind == "tcp":
        return sock.recv(2048).decode()
    ends = time.monotonic() + timeout
    while True:
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(min(left, 1))
        sock.send(b"?")
        try:
            return sock.recv(2048).decode()
        except TimeoutError:
            pass


def probe(*targets):
    """Sends all requests at once, each as tcp,HOST,PORT udp,HOST,PORT or icmp,HOST; prints 1 or 0 for each."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    sel = selectors.DefaultSelector()
    answered = [0] * len(targets)
    pings = []
    for index, target in enumerate(targets):
        kind, host, *port = target.split(",")
        if kind == "icmp":
            ping = subprocess.Popen(["ping", "-c1", "-W1", "-q", host], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            pings.append((index, ping))
            continue
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        sock.setblocking(False)
        code = sock.connect_ex((host, int(port[0])))
        if code not in (0, errno.EINPROGRESS):
            continue
        if kind == "udp":
            sock.send(b"?")
        sel.register(sock, selectors.EVENT_READ, index)
    end = time.time() + 1
    while sel.get_map() and time.time() < end:
        for key, _ in sel.select(end - time.time()):
            sel.unregister(key.fileobj)
            try:
                answered[key.data] = 1 if key.fileobj.recv(2048) else 0
                end = time.time() + 1  # the wait ends after a second without an answer
            except OSError:
                pass
    for index, ping in pings:
        answered[index] = 1 if ping.wait() == 0 else 0
    print("".join(map(str, answered)))


def stream(host, interval, *ports):
    """Sends requests to datagram ports in turn until killed; prints "port seconds-since-1970 answered" for each."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sel = selectors.DefaultSelector()
    sel.register(sock, selectors.EVENT_READ)
    waiting = {}

    def drain():
        while True:
            try:
                answered = int(sock.recv(2048).split()[-1])
            except BlockingIOError:
                return
            except OSError:
                continue
            if answered in waiting:
                print(*waiting.pop(answered), 1, flush=True)

    print("ready", flush=True)
    number = 0
    while True:
        port = int(ports[number % len(ports)])
        number += 1
        waiting[number] = (port, time.time())
        try:
            sock.sendto(str(number).encode(), (host, port))
        except OSError:
            pass
        if time.time() - waiting[number][1] > 0.05:  # sending took long, so the exact time is unknown
            del waiting[number]
        until = time.time() + float(interval)
        while (left := until - time.time()) > 0 and sel.select(left):
            drain()
        now = time.time()
        drain()  # answers that arrived while other programs ran
        for key in [key for key, (_, sent) in waiting.items() if now - sent > 0.5]:
            print(*waiting.pop(key), 0, flush=True)


def echo(port):
    """Echoes the data of each connection."""
    server = socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    print("ready", flush=True)
    while True:
        conn, _ = server.accept()
        threading.Thread(target=lambda: [conn.sendall(data) for data in iter(lambda: conn.recv(64), b"")]).start()


def talk(host, port):
    """Keeps one connection busy; prints the time of each answer."""
    sock = socket.create_connection((host, int(port)))
    print("ready", flush=True)
    while True:
        sock.sendall(b"x")
        sock.recv(64)
        print(time.time(), flush=True)
        time.sleep(0.02)


def tick(port):
    """Sends data to each connection at an even rate, without any request."""
    server = socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    print("ready", flush=True)

    def send_on(conn):
        while True:
            conn.sendall(b"x")
            time.sleep(0.02)

    while True:
        threading.Thread(target=send_on, args=(server.accept()[0],)).start()


def hear(host, port):
    """Sends nothing; prints the time of each arrival on one connection."""
    sock = socket.create_connection((host, int(port)))
    print("ready", flush=True)
    while sock.recv(64):
        print(time.time(), flush=True)


def taken_in(sock):
    """Returns a time in seconds and the payload bytes that the kernel had received by then, read or unread."""
    while True:
        begin = time.monotonic()
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        if time.monotonic() - begin < 0.002:  # otherwise another program ran in between
            return begin, struct.unpack_from("Q", info, 128)[0]  # tcpi_bytes_received


def rates(sock, seconds):
    """Yields the received Mbit/s per window of that length, until killed. The first half second of TCP is omitted.

    A window ends when data has just arrived in order, so that data behind a lost packet counts in the right window.
    """
    buffer = bytearray(1 << 20)
    begin, length, had = time.monotonic(), 0.5, None
    while sock.recv_into(buffer):
        now, has = taken_in(sock)
        if now - begin < length:
            continue
        if had is not None:
            yield (has - had) * 8e-6 / (now - begin)
        begin, length, had = now, float(seconds), has


def pour(sock):
    while True:
        sock.sendall(bytes(1 << 20))


def answer_flow(conn):
    """Serves one connection of `flow`."""
    way, seconds = conn.makefile("rb", buffering=0).readline().decode().split()
    try:
        if way == "down":
            pour(conn)
        for mbps in rates(conn, seconds):
            conn.sendall(f"{mbps}\n".encode())
    except OSError:  # the other end has closed the connection
        pass


def flows(port):
    """Serves any number of connections of `flow`."""
    server = socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        conn, _ = server.accept()
        if os.fork() == 0:
            end_with_parent()
            answer_flow(conn)
            os._exit(0)
        conn.close()


def end_with_parent():
    """Makes this process end with its parent, even while it waits (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def flow(host, port, way, seconds):
    """Opens a TCP connection in the direction "down" (to here) or "up". Prints the payload in Mbit/s per window."""
    sock = socket.create_connection((host, int(port)), timeout=10)
    sock.settimeout(None)
    sock.sendall(f"{way} {seconds}\n".encode())
    if way == "down":
        for mbps in rates(sock, seconds):
            print(mbps, flush=True)
    else:
        threading.Thread(target=pour, args=(sock,), daemon=True).start()
        for line in sock.makefile():
            print(line, end="", flush=True)


def sink(port):
    """Reads connections to their end, one after another. Answers each with the number of received bytes."""
    server = socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    print("ready", flush=True)
    buffer = bytearray(1 << 20)
    while True:
        conn, _ = server.accept()
        came = 0
        while count := conn.recv_into(buffer):
            came += count
        conn.sendall(str(came).encode())
        conn.close()


def upload(host, port, count):
    """Sends a number of bytes to `sink`; prints how many arrived."""
    sock = socket.create_connection((host, int(port)), timeout=30)
    sock.sendall(bytes(int(count)))
    sock.shutdown(socket.SHUT_WR)
    print(sock.recv(64).decode())


def send(dev, *frames):
    """Sends frames, which are given in hexadecimal, without changes."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sock.bind((dev, 0))
    for frame in frames:
        sock.send(bytes.fromhex(frame))


def burst(dev):
    """Sends frames from lines in hexadecimal. At each empty line it prints the number of frames since the last one."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sock.bind((dev, 0))
    sent = 0
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "\n":
            print(sent, flush=True)
            sent = 0
            continue
        try:
            sock.send(bytes.fromhex(line))
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            time.sleep(0.01)
            sock.send(bytes.fromhex(line))
        sent += 1


def sniff(dev):
    """Prints each marker <<...>> in a frame that arrives at the device."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind((dev, 3))
    print("ready", flush=True)
    while True:
        try:
            data, address = sock.recvfrom(65535)
        except OSError:  # the device was deleted
            return
        marker = re.search(rb"<<([^<>\0]*)>>", data)
        if marker and address[2] != 4:  # 4: outgoing frame
            print(marker[1].decode(errors="replace"), flush=True)


def flood(targets, count, size="1", *sources):
    """Opens datagram flows from several sources to several targets (A,B,C). Prints the duration in seconds."""
    begin = time.time()
    targets = targets.split(",")
    family = socket.AF_INET6 if ":" in targets[0] else socket.AF_INET
    socks = [socket.socket(family, socket.SOCK_DGRAM) for _ in sources or range(4)]
    for sock, source in zip(socks, sources):
        sock.bind((source, 0))
    ways = [(sock, target) for sock in socks for target in targets]
    for index in range(int(count)):
        sock, target = ways[index % len(ways)]
        try:
            sock.sendto(b"x" * int(size), (target, 1024 + index // len(ways)))
        except OSError:  # the kernel may report a dropped datagram
            pass
    print(time.time() - begin)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def scan(source, target, first="1", last="65535"):
    """Sends a SYN to every port; prints the ports that answer in any way."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    sock.setblocking(False)
    src, dst = socket.inet_aton(source), socket.inet_aton(target)
    seen = set()

    def drain():
        while True:
            try:
                packet = sock.recv(65535)
            except BlockingIOError:
                return
            # If a port is mapped to the guest that scans, its own SYN returns to it through the host.
            if packet[12:16] == dst and packet[22:24] == struct.pack("!H", 61234):
                seen.add(struct.unpack("!H", packet[20:22])[0])

    for port in range(int(first), int(last) + 1):
        head = struct.pack("!HHIIBBHHH", 61234, port, 7, 0, 0x50, 2, 1024, 0, 0)
        total = checksum(src + dst + struct.pack("!BBH", 0, 6, 20) + head)
        sock.sendto(head[:16] + struct.pack("!H", total) + head[18:], (target, 0))
        if port % 256 == 0:
            drain()
    end = time.time() + 1
    while time.time() < end:
        drain()
        time.sleep(0.05)
    print(" ".join(map(str, sorted(seen))))


def describe(packet):
    """Returns an IP packet's (source, "tcp:22" | "udp:53" | "icmp:3" | "ip:47"); None if it is not an answer."""
    if packet[0] >> 4 == 4:
        source, kind, body = socket.inet_ntop(socket.AF_INET, packet[12:16]), packet[9], packet[(packet[0] & 15) * 4 :]
    else:
        source, kind, body = socket.inet_ntop(socket.AF_INET6, packet[8:24]), packet[6], packet[40:]
    if kind == 58 and 130 <= body[0] <= 137:  # neighbour discovery is not an answer
        return None
    if kind in (6, 17):
        return source, f"{'tcp' if kind == 6 else 'udp'}:{struct.unpack('!H', body[:2])[0]}"
    return source, f"icmp:{body[0]}" if kind in (1, 58) else f"ip:{kind}"


def knock(dev, *targets):
    """Tries every TCP and UDP port and every other protocol of each target; prints each answer as "target answer"."""
    listen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    listen.setsockopt(socket.SOL_SOCKET, 33, 1 << 25)  # SO_RCVBUFFORCE
    listen.bind((dev, 3))
    listen.setblocking(False)
    index = socket.if_nametoindex(dev)
    answers = set()

    def drain():
        while True:
            try:
                packet, address = listen.recvfrom(65535)
            except BlockingIOError:
                return
            # Type 0 means that the packet is addressed to this host, as answers are.
            if address[2] == 0 and address[1] in (0x0800, 0x86DD) and (answer := describe(packet)):
                answers.add(answer)

    def send(sock, data, address):
        try:
            sock.sendto(data, address)
        except OSError:  # there is no route to the target
            pass

    for target in targets:
        is6 = ":" in target
        family = socket.AF_INET6 if is6 else socket.AF_INET
        to = (target, 0, 0, index) if is6 else (target, 0)
        socks = {kind: socket.socket(family, socket.SOCK_RAW, kind) for kind in (6, 17)}
        with socket.socket(family, socket.SOCK_DGRAM) as finder:
            finder.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            finder.connect((target, 9, 0, index) if is6 else (target, 9))
            source = socket.inet_pton(family, finder.getsockname()[0].partition("%")[0])
        ends = source + socket.inet_pton(family, target)
        for port in range(1, 65536):
            tcp = struct.pack("!HHIIBBHHH", 61234, port, 7, 0, 0x50, 2, 1024, 0, 0)
            udp = struct.pack("!HHHH", 61234, port, 9, 0) + b"?"
            for kind, data, at in ((6, tcp, 16), (17, udp, 6)):
                pseudo = ends + (struct.pack("!IxxxB", len(data), kind) if is6 else struct.pack("!xBH", kind, len(data)))
                total = checksum(pseudo + data + b"\0" * (len(data) % 2)) or 0xFFFF
                send(socks[kind], data[:at] + struct.pack("!H", total) + data[at + 2 :], to)
            if port % 128 == 0:
                drain()
        for kind in set(range(1, 256)) - {1, 6, 17, 58}:
            with socket.socket(family, socket.SOCK_RAW, kind) as sock:
                send(sock, bytes(64), to)
    end = time.time() + 1
    while time.time() < end:
        drain()
        time.sleep(0.02)
    for source, answer in sorted(answers):
        print(source, answer)


def fdb(bridge):
    """Prints a line "mac port-number" for each MAC address that the bridge has learned."""
    with open(f"/sys/class/net/{bridge}/brforward", "rb") as file:
        data = file.read()
    for at in range(0, len(data), 16):
        mac, port, is_local = data[at : at + 6], data[at + 6], data[at + 7]
        if not is_local:
            print(mac.hex(":"), port)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
