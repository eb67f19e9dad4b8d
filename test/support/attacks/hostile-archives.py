"""Writes hostile archives to a directory, one file each. An archive tries to write outside of the directory in which
it is unpacked. Arguments: the directory, and a path on the host that must stay unchanged (the canary)."""
import bz2, gzip, io, lzma, os, struct, sys, tarfile, warnings, zipfile, zlib

warnings.simplefilter('ignore')  # duplicate names in a zip archive are intended

out, canary = sys.argv[1:]
up = '../' * 12
marker = b'from the archive\n'


def entry(name, kind=tarfile.REGTYPE, data=b'', **fields):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = len(data)
    info.mode = fields.pop('mode', 0o755 if kind == tarfile.DIRTYPE else 0o644)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def file(name, **fields):
    return entry(name, data=marker, **fields)


def link(name, target):
    return entry(name, tarfile.SYMTYPE, linkname=target)


def hard(name, target):
    return entry(name, tarfile.LNKTYPE, linkname=target)


def folder(name, **fields):
    return entry(name, tarfile.DIRTYPE, **fields)


def tar(entries, format=tarfile.GNU_FORMAT):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode='w', format=format) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def pax(name, headers):
    info, data = file(name)
    info.pax_headers = headers
    return tar([(info, data)], tarfile.PAX_FORMAT)


def raw_header(name, typeflag, size=0, linkname=b'', uid=b'0000000\0'):
    block = struct.pack('100s8s8s8s12s12s8s1s100s8s32s32s8s8s155s12x', name, b'0000644\0', uid, b'0000000\0',
                        b'%011o\0' % size, b'00000000000\0', b' ' * 8, typeflag, linkname, b'ustar  \0', b'', b'', b'', b'', b'')
    return block[:148] + b'%06o\0 ' % sum(block) + block[156:]


def with_dictionary(packed, code):
    """Changes the dictionary size in the first block of an xz file. The code 40 is 4 GiB (xz format 5.3.1)."""
    length = (packed[12] + 1) * 4
    header = bytearray(packed[12:12 + length - 4])
    header[header.index(bytes([0x21, 1])) + 2] = code
    return packed[:12] + bytes(header) + struct.pack('<I', zlib.crc32(header)) + packed[12 + length:]


host, name = os.path.dirname(canary), os.path.basename(canary)
targets = {'absolute': host, 'relative': up + host.lstrip('/'), 'proc-root': '/proc/self/root' + host,
           'proc-1': '/proc/1/root' + host, 'cwd': '/proc/self/cwd/' + up + host.lstrip('/'), 'etc': '/etc', 'dev': '/dev', 'sys': '/sys'}
cases = {}
for label, target in targets.items():
    cases[f'link-to-{label}-then-file'] = tar([link('a', target), file(f'a/{name}')])
    cases[f'link-to-{label}-then-folder'] = tar([link('a', target), folder(f'a/{name}.d')])
    cases[f'link-to-{label}-then-same-folder'] = tar([link('a', target), folder('a', mode=0o777), file(f'a/{name}')])
    cases[f'link-over-folder-to-{label}'] = tar([folder('a'), link('a', target), file(f'a/{name}')])
    cases[f'hard-link-to-{label}'] = tar([hard('a', f'{target}/{name}'), file('a')])
for label, path in {'absolute': canary, 'relative': up + canary.lstrip('/'), 'inside': 'a/../' + up + canary.lstrip('/'),
                    'dots': './' + up + canary.lstrip('/')}.items():
    cases[f'name-{label}'] = tar([folder('a'), file(path)])
    cases[f'hard-name-{label}'] = tar([hard('x', path), file('x')])
    cases[f'pax-path-{label}'] = pax('harmless', {'path': path})
    cases[f'pax-link-{label}'] = tar([link('harmless', 'b')]) + pax('c', {'linkpath': path})
cases['chain-of-links'] = tar([link('a', 'b'), link('b', 'c'), link('c', host), file(f'a/{name}')])
cases['chain-over-hard-links'] = tar([link('a', host), hard('b', 'a'), file(f'b/{name}')])
cases['loop-of-links'] = tar([link('a', 'b'), link('b', 'a'), file('a/x')])
cases['root-is-a-link'] = tar([link('.', host), file(name)])
cases['root-is-a-file'] = tar([file('.')])
cases['root-is-a-device'] = tar([entry('.', tarfile.BLKTYPE, devmajor=7, devminor=0)])
for label, kind, major, minor in [('null', tarfile.CHRTYPE, 1, 3), ('mem', tarfile.CHRTYPE, 1, 1), ('loop', tarfile.BLKTYPE, 7, 0),
                                  ('whiteout', tarfile.CHRTYPE, 0, 0)]:
    cases[f'device-{label}'] = tar([folder('etc'), entry(f'etc/{label}', kind, devmajor=major, devminor=minor, mode=0o666)])
    cases[f'device-{label}-in-dev'] = tar([folder('dev'), entry(f'dev/{label}', kind, devmajor=major, devminor=minor), file('ok')])
cases['fifo'] = tar([entry('pipe', tarfile.FIFOTYPE), file('pipe')])
cases['setuid-root'] = tar([file('su', mode=0o6755)])
cases['huge-ids'] = tar([file('a', uid=4294967294, gid=4294967294), file('b', uid=65536, gid=65536)])
cases['newline-in-name'] = tar([file('a\nb'), file('--checkpoint-action=exec=touch ' + canary)])
cases['option-as-name'] = tar([file('--to-command=touch ' + canary), file('-C')])
cases['pax-size-lies'] = pax('a', {'size': '99999999999'})
cases['pax-broken'] = raw_header(b'x', b'x', 20) + b'999999 path=/etc/x\n'.ljust(512, b'\0') + raw_header(b'a', b'0')
cases['gnu-long-name-huge'] = raw_header(b'././@LongLink', b'L', 8 << 30) + b'a' * 4096
cases['gnu-rename'] = raw_header(b'x', b'N', 40) + f'Rename a to {canary}\n'.encode().ljust(512, b'\0')
cases['gnu-dumpdir'] = raw_header(b'a', b'D', 20) + f'R{canary}\0Tb\0\0'.encode().ljust(512, b'\0')
cases['gnu-multi-volume'] = raw_header(b'a', b'M', 100) + b'x' * 512
cases['trusted-attribute'] = pax('a', {'SCHILY.xattr.trusted.overlay.opaque': 'y', 'SCHILY.xattr.security.selinux': 'x'})
cases['acl-broken'] = pax('a', {'SCHILY.acl.access': 'user::rwx,nonsense:' + 'x' * 5000})
cases['capability-broken'] = pax('a', {'SCHILY.xattr.security.capability': 'x' * 300})
cases['bomb-of-zeros'] = gzip.compress(tar([entry('zeros', data=bytes(96 << 20))]), 1)
cases['bomb-of-folders'] = lzma.compress(tar([folder('/'.join(['d' * 200] * depth)) for depth in range(1, 60)]), preset=0)
cases['bomb-of-files'] = bz2.compress(tar([entry(f'f{index:06}', data=b'x' * 2100) for index in range(12000)]), 1)
cases['bomb-of-memory'] = with_dictionary(lzma.compress(tar([file('a')])), 40)
cases['cut'] = tar([file('a'), entry('b', data=bytes(100000))])[:9000]
cases['cut-xz'] = lzma.compress(tar([entry('b', data=os.urandom(100000))]))[:5000]
cases['garbage'] = os.urandom(50000)
cases['empty'] = b''
cases['zeros'] = bytes(10240)
cases['text'] = b'<html>404 not found</html>'

def zipped(*entries):
    """Each entry is (name, data, Unix mode). The data of a link is its target."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, 'w', zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in entries:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, mode << 16
            archive.writestr(info, data)
    return buffer.getvalue()


plain, symlink = 0o100644, 0o120777
outside = os.path.dirname(canary)
cases['zip-up'] = zipped((up + canary[1:], marker, plain))
cases['zip-absolute'] = zipped((canary, marker, plain))
cases['zip-backslash'] = zipped(('..\\..\\..' + canary.replace('/', '\\'), marker, plain))
cases['zip-link-then-file'] = zipped(('etc', outside, symlink), ('etc/' + os.path.basename(canary), marker, plain))
cases['zip-link-to-canary'] = zipped(('a', canary, symlink), ('a', marker, plain))
cases['zip-link-up'] = zipped(('a', up + outside[1:], symlink), ('a/' + os.path.basename(canary), marker, plain))
cases['zip-device'] = zipped(('null', b'', 0o020666), ('disk', b'', 0o060666))
cases['zip-metadata-link'] = zipped(('metadata.yaml', canary, symlink), ('rootfs/a', marker, plain))
cases['zip-rootfs-link'] = zipped(('metadata.yaml', marker, plain), ('rootfs', outside, symlink))
cases['zip-in-zip'] = zipped(('a.zip', zipped(('b.zip', zipped(('c', marker, plain)), plain)), plain))
cases['bomb-of-zeros-zip'] = zipped(('zeros', bytes(96 << 20), plain))
cases['cut-zip'] = zipped(('a', marker * 1000, plain))[:-30]
cases['export-rootfs-link'] = tar([file('metadata.yaml'), link('rootfs', outside)])
cases['export-links-in-it'] = tar([file('metadata.yaml'), folder('rootfs'), link('rootfs/etc', outside), link('x', outside)])
cases['zip'] = b'PK\x03\x04' + bytes(600)
cases['elf'] = b'\x7fELF' + bytes(600)

os.makedirs(out, exist_ok=True)
for label, content in cases.items():
    with open(os.path.join(out, label), 'wb') as archive:
        archive.write(content)
print(len(cases))
