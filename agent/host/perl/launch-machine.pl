# Starts a virtual machine, and ends when its process runs QEMU. Prints the pid. Opens files as root that QEMU may
# not open, and passes their descriptors. The process then enters an empty root (isolate.pl) and gives up all rights of
# root.
# Arguments, each as `key=value`, up to `--`. The command line of QEMU follows, in which %{NAME} stands for a descriptor.
#   lock=PATH               file to lock until QEMU runs, so that it is not started twice
#   busy=GROUP              cgroup: if it contains a process, the machine runs already, and only its pid is printed
#   group=PATH              cgroup to enter
#   listen=NAME:PATH        Unix socket on which QEMU listens; only root can connect
#   direct=NAME:PATH        file to read and write without the page cache
#   write=NAME:PATH         file to read and write
#   read=NAME:PATH          file to read
#   tpm=NAME:DIRECTORY      state of a TPM; swtpm is started at the other end of a socket
#   tap=NAME:DEVICE:BRIDGE:MAC
#   uid=NUMBER  groups=NUMBERS  cwd=PATH  log=PATH
#
# System calls: ioctl with TUNSETIFF and those of interfaces; unshare, prctl, setgroups, setresgid, setresuid, capset,
# prlimit64 and those of isolate.pl, in this order between fork and exec with open descriptors. Node cannot make them, and
# ip(8), setpriv(1) and prlimit(1) would be three more programs to run.
use strict;
use Fcntl qw(:DEFAULT :flock);
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{isolate.pl}r);

my ($iff_tap, $iff_no_pi, $iff_vnet_hdr, $tunsetiff) = (0x0002, 0x1000, 0x4000, 0x400454ca);
# linux/sockios.h and if.h
my ($get_flags, $set_flags, $set_address, $get_index, $add_port) = (0x8913, 0x8914, 0x8924, 0x8933, 0x89a2);
my ($iff_up, $ethernet) = (0x1, 1);
my ($af_unix, $af_inet, $stream, $datagram) = (1, 2, 1, 2);
my ($new_uts, $new_ipc, $new_net) = (0x04000000, 0x08000000, 0x40000000);
my ($capbset_drop, $set_no_new_privs, $capability_version) = (24, 38, 0x20080522); # linux/prctl.h, capability.h
my ($rlimit_core, $rlimit_files, $most_files) = (4, 7, 1024);
open(my $last, '<', '/proc/sys/kernel/cap_last_cap') or die "cap_last_cap: $!\n";
my $last_capability = <$last> + 0;
close $last;

my (%one, %many);
while (@ARGV) {
  my $argument = shift @ARGV;
  last if $argument eq '--';
  my ($key, $value) = $argument =~ /^([a-z]+)=(.*)$/s or die "invalid argument: $argument\n";
  $one{$key} = $value;
  push @{ $many{$key} }, $value;
}

sysopen(my $lock, $one{lock}, O_RDWR | O_CREAT, 0600) or die "$one{lock}: $!\n";
flock($lock, LOCK_EX) or die "$one{lock}: $!\n";
if (open(my $procs, '<', "$one{busy}/cgroup.procs")) {
  while (my $pid = <$procs>) {
    chomp $pid;
    if (command_of($pid) ne 'swtpm') { print "$pid\n"; exit 0 } # a swtpm without QEMU is about to end
  }
}

sub command_of {
  open(my $comm, '<', "/proc/$_[0]/comm") or return 'swtpm'; # the process has ended
  my $name = <$comm> // '';
  chomp $name;
  return $name;
}

my %fd;
$^F = 10_000; # only descriptors above this number are closed at exec

sub keep {
  my ($name, $handle) = @_;
  $fd{$name} = $handle;
}

sub listen_at {
  my ($name, $path) = split /:/, $_[0], 2;
  unlink $path;
  socket(my $socket, $af_unix, $stream, 0) or die "$path: $!\n";
  length $path < 108 && bind($socket, pack('S Z*', $af_unix, $path)) or die "$path: $!\n";
  chmod 0600, $path;
  listen($socket, 8) or die "$path: $!\n";
  keep($name, $socket);
}

sub open_file {
  my ($flags, $given) = @_;
  my ($name, $path) = split /:/, $given, 2;
  sysopen(my $file, $path, $flags | O_NOFOLLOW | O_NONBLOCK) or die "$path: $!\n";
  die "$path: not a plain file\n" unless -f $file; # a device could be a disk of the host
  keep($name, $file);
}

# Sets the interface's address, puts it on its bridge, and then sets it up, so that packets pass only afterwards.
sub connect_port {
  my ($device, $bridge, $mac) = @_;
  local $^F = 2;
  socket(my $socket, $af_inet, $datagram, 0) or die "socket: $!\n";
  my $request = sub {
    my ($kind, $name, $rest) = @_;
    my $argument = pack('Z16 a24', $name, $rest);
    ioctl($socket, $kind, $argument) or die "interface $name: $!\n";
    return substr($argument, 16);
  };
  $request->($set_address, $device, pack('S (H2)6', $ethernet, split /:/, $mac));
  $request->($add_port, $bridge, substr($request->($get_index, $device, ''), 0, 4));
  $request->($set_flags, $device, pack('S', unpack('S', $request->($get_flags, $device, '')) | $iff_up));
}

# Opens a tap that is not persistent: like a container's interface, it disappears when the last process using it ends.
sub open_tap {
  my ($name, $device, $bridge, $mac) = split /:/, $_[0], 4;
  sysopen(my $tap, '/dev/net/tun', O_RDWR) or die "/dev/net/tun: $!\n";
  my $request = pack('Z16 s x22', $device, $iff_tap | $iff_no_pi | $iff_vnet_hdr);
  ioctl($tap, $tunsetiff, $request) or die "tap $device: $!\n";
  keep($name, $tap);
  connect_port($device, $bridge, $mac);
}

# Starts swtpm in the guest's cgroups and namespaces, as its user. swtpm ends when QEMU closes its end of the socket.
sub start_tpm {
  my ($name, $directory) = split /:/, $_[0], 2;
  local $^F = 2;
  socketpair(my $ours, my $its, $af_unix, $stream, 0) or die "socketpair: $!\n";
  # An additional process is forked, because a process can create only one process namespace for its children. The main
  # process creates the namespace of QEMU.
  my $between = fork // die "fork: $!\n";
  if (!$between) {
    eval {
      own_processes();
      my $pid = fork // die "fork: $!\n";
      POSIX::_exit(0) if $pid;
      separate();
      enter_empty_root(['write', $directory]);
      chdir $directory or die "$directory: $!\n"; # as root, because the user cannot enter the directories above
      keep_open($its);
      keep_only(fileno $its);
      give_up('/usr/bin/swtpm', 'socket', '--tpm2', '--tpmstate', 'dir=.,mode=0600', '--terminate',
        '--ctrl', 'type=unixio,clientfd=' . fileno $its);
    };
    POSIX::_exit(1);
  }
  waitpid $between, 0;
  keep_open($ours);
  keep($name, $ours);
}

# Keeps a descriptor open in programs that are started afterwards.
sub keep_open {
  fcntl($_[0], F_SETFD, 0) or die "fcntl: $!\n";
}

start_tpm($_) for @{ $many{tpm} }; # first, so that it does not inherit the descriptors that are opened next
listen_at($_) for @{ $many{listen} };
open_file(O_RDWR | O_DIRECT, $_) for @{ $many{direct} };
open_file(O_RDWR, $_) for @{ $many{write} };
open_file(O_RDONLY, $_) for @{ $many{read} };
open_tap($_) for @{ $many{tap} };
s/%\{(\w+)\}/exists $fd{$1} ? fileno $fd{$1} : die "no open file has the name $1\n"/ge for @ARGV;

{
  local $^F = 2;
  pipe(my $said, my $saying) or die "pipe: $!\n";
  own_processes();
  my $pid = fork // die "fork: $!\n";
  if (!$pid) {
    close $said;
    eval { become() };
    syswrite($saying, $@);
    POSIX::_exit(1);
  }
  close $saying;
  my $failure = join '', <$said>;
  die $failure if $failure ne '';
  print "$pid\n";
}

sub separate {
  for my $group (@{ $many{group} }) {
    open(my $procs, '>', "$group/cgroup.procs") or die "$group: $!\n";
    syswrite($procs, $$) && close $procs or die "$group: $!\n";
  }
  POSIX::setsid();
  ask('unshare', 'unshare', $new_net | $new_ipc | $new_uts);
  umask 0077;
  sysopen(my $log, $one{log}, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600) or die "$one{log}: $!\n";
  sysopen(my $null, '/dev/null', O_RDONLY) or die "/dev/null: $!\n";
  POSIX::dup2(fileno $null, 0);
  POSIX::dup2(fileno $log, $_) for 1, 2;
  %ENV = (PATH => '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL => 'C.UTF-8');
}

sub become {
  separate();
  # QEMU's working directory keeps its path, because QEMU creates a socket and writes screenshots there.
  enter_empty_root(['write', $one{cwd}], $one{groups} ? ['device', '/dev/kvm'] : ());
  chdir $one{cwd} or die "$one{cwd}: $!\n";
  keep_only(map { fileno $_ } values %fd);
  give_up(@ARGV);
}

# Sets limits and gives up all rights, like prlimit(1) and setpriv(1), and runs a program. The kernel removes all further
# capabilities when root becomes another user.
sub give_up {
  my ($program, @arguments) = @_;
  limit($_->[0], $_->[1]) for [$rlimit_core, 0], [$rlimit_files, $most_files];
  my @groups = $one{groups} ? split(/,/, $one{groups}) : ();
  for my $capability (0 .. $last_capability) { ask('bounding set', 'prctl', $capbset_drop, $capability, 0, 0, 0) }
  ask('groups', 'setgroups', scalar @groups, pack('L*', @groups));
  ask('group', 'setresgid', ($one{uid} + 0) x 3);
  ask('user', 'setresuid', ($one{uid} + 0) x 3);
  my $header = pack('L l', $capability_version, 0);
  ask('capabilities', 'capset', $header, pack('L6', (0) x 6));
  ask('no new privileges', 'prctl', $set_no_new_privs, 1, 0, 0, 0);
  exec { $program } $program, @arguments;
  die "$program: $!\n";
}

sub limit {
  my ($resource, $most) = @_;
  ask("limit $resource", 'prlimit64', 0, $resource, pack('Q2', $most, $most), 0);
}
