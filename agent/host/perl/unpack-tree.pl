# Unpacks an untrusted archive. Arguments: the archive, the target (an empty directory), the first of 65,536 unused user ids
# of the host, then the program that unpacks its standard input into its working directory. If the archive is "-", it is the
# standard input of this program. Otherwise, an argument /archive of the program is its path, for programs that must seek. The
# archive itself is not changed, because it can be a file of the operator.
#
# The program runs as root of a user namespace with those ids, without a network, in an empty root (isolate.pl). The target
# is mounted idmapped on /target, so that files of root in the archive belong to root on the disk. Everything else is
# read-only. The mount of /archive is idmapped, too, so that the program can read it if only root of the host can. When the program ends, all processes that it has started end.
#
# System calls: unshare, open_tree, mount_setattr with MOUNT_ATTR_IDMAP, prctl and those of isolate.pl, between fork and
# exec. mount(8) of Debian 12 cannot create idmapped mounts.
use strict;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{isolate.pl}r);

my ($archive, $target, $base, @program) = @ARGV;
my ($new_user, $new_others) = (0x10000000, 0x68000000); # CLONE_NEWUSER; CLONE_NEWPID, _NEWNET and _NEWIPC
my ($here, $empty_path, $no_follow) = (-100, 0x1000, 0x100);
my ($read_only, $no_dev, $idmap) = (1 | 2, 4, 0x00100000);
my $place = '/target';

sub set_mount {
  my ($fd, $path, $flags, $set, $propagation, $userns) = @_;
  my $attributes = pack('Q4', $set, 0, $propagation, $userns);
  ask("mount $path", 'mount_setattr', $fd, "$path", $flags, $attributes, length $attributes);
}

sub write_map {
  my ($path) = @_;
  open(my $map, '>', $path) or die "$path: $!\n";
  syswrite($map, "0 $base 65536\n") or die "$path: $!\n";
}

my $is_file = $archive ne '-';
if ($is_file) { open(STDIN, '<', $archive) or die "$archive: $!\n" }
own_mounts();
ask('unshare', 'unshare', $new_others);

pipe(my $mapped, my $map) && pipe(my $born, my $birth) or die "pipe: $!\n";
my $child = fork // die "fork: $!\n";
if (!$child) {
  close $_ for $map, $born;
  ask('unshare', 'unshare', $new_user);
  syswrite($birth, '.');
  sysread($mapped, my $ready, 1) or POSIX::_exit(1);
  $( = 0, $) = '0 0', $< = 0, $> = 0;
  die "change of user: $!\n" if "$< $>" ne '0 0';
  end_with_parent(); # after the change of user, which would revoke this setting
  chdir $place or die "$place: $!\n";
  umask 0;
  exec { $program[0] } @program or print(STDERR "$program[0]: $!\n"), POSIX::_exit(127);
}
close $_ for $mapped, $birth;
sysread($born, my $lives, 1) or die "the user namespace was not created\n";
write_map("/proc/$child/$_") for 'uid_map', 'gid_map';
open(my $userns, '<', "/proc/$child/ns/user") or die "user namespace: $!\n";
my $tree = ask('open_tree', 'open_tree', $here, "$target", 1 | close_on_exec());
set_mount($tree, '', $empty_path, $no_dev | $idmap, 0, fileno $userns);
my @entries = ['tree', $tree, $place];
if ($is_file && grep { $_ eq '/archive' } @program) {
  my $opened = ask('open_tree', 'open_tree', $here, "$archive", 1 | $no_follow | close_on_exec());
  eval { set_mount($opened, '', $empty_path, $read_only | $no_dev | $idmap, 0, fileno $userns); 1 } or die "/archive: $@";
  push @entries, ['opened', $opened, '/archive'];
}
enter_empty_root(@entries);
syswrite($map, '.');
waitpid $child, 0;
POSIX::_exit($? & 127 ? 128 + ($? & 127) : $? >> 8);
