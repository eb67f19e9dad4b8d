"""Small network tools for tests: an echo server, a client, raw frames, a sniffer and a port scan.

Run inside a network namespace. Standard library only.
"""
import selectors
import socket
import struct
import sys
import time


def serve(name, *ports):
    """Answers every request with "NAME peer-address"; ports like tcp:22 udp:53."""
    sel = selectors.DefaultSelector()
    for port in ports:
        kind, number = port.split(":")
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("0.0.0.0", int(number)))
        if kind == "tcp":
            sock.listen(64)
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
                key.fileobj.sendto(f"{name} {peer[0]}".encode(), peer)


def ask(kind, host, port, sport="0", timeout="1"):
    """Prints the answer of `serve`, or nothing."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    sock.settimeout(float(timeout))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("0.0.0.0", int(sport)))
    try:
        sock.connect((host, int(port)))
        if kind == "udp":
            sock.send(b"?")
        print(sock.recv(2048).decode())
    except OSError:
        pass


def send(dev, *frames):
    """Sends frames given in hex as they are."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sock.bind((dev, 0))
    for frame in frames:
        sock.send(bytes.fromhex(frame))


def sniff(dev):
    """Prints each marker <<...>> in a frame that comes in at the device."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind((dev, 3))
    print("ready", flush=True)
    while True:
        try:
            data, address = sock.recvfrom(65535)
        except OSError:  # the device is gone
            return
        if address[2] == 4 or b"<<" not in data:  # 4: outgoing
            continue
        print(data[data.index(b"<<") + 2 : data.index(b">>")].decode(), flush=True)


def flood(target, count):
    """Opens that many datagram flows; prints the seconds it took."""
    begin = time.time()
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
    for index in range(int(count)):
        try:
            socks[index % 4].sendto(b"x", (target, 1024 + index // 4))
        except OSError:  # dropped: the kernel may say so
            pass
    print(time.time() - begin)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def scan(source, target, first="1", last="65535"):
    """Sends a SYN to every port; prints the ports that answer with anything at all."""
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
            # Its own SYN comes back by way of the host when a port is mapped to the scanner itself.
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


def fdb(bridge):
    """Prints "mac port-number" of each learnt entry of the bridge."""
    with open(f"/sys/class/net/{bridge}/brforward", "rb") as file:
        data = file.read()
    for at in range(0, len(data), 16):
        mac, port, is_local = data[at : at + 6], data[at + 6], data[at + 7]
        if not is_local:
            print(mac.hex(":"), port)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
