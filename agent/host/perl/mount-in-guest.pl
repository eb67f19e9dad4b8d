#!/usr/bin/perl
# Mounts a directory of the host on /mnt of a container that is about to start, with the container's user ids and without
# device nodes. The container itself cannot access the directory's path. Argument: the directory. lxc runs a copy of this
# program as root on the host, with LXC_PID in the environment.
#
# System calls: open_tree, mount_setattr with MOUNT_ATTR_IDMAP, setns, and move_mount of the same descriptor in the
# container's namespace. mount(8) and nsenter(1) cannot pass a descriptor on.
use strict;
use Fcntl;
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($directory) = @ARGV;
my ($here, $empty_path, $clone) = (-100, 0x1000, 1);
my ($new_ns, $from_empty_path, $nosuid, $nodev, $idmap) = (0x00020000, 4, 0x2, 0x4, 0x00100000);

sub namespace_of {
  my ($kind) = @_;
  sysopen(my $handle, "/proc/$ENV{LXC_PID}/ns/$kind", O_RDONLY) or die "$kind namespace: $!\n";
  return $handle;
}

my ($ids, $mounts) = map { namespace_of($_) } 'user', 'mnt';
my $mount = ask("mount $directory", 'open_tree', $here, "$directory", $clone | close_on_exec());
my $attributes = pack('Q4', $nosuid | $nodev | $idmap, 0, 0, fileno $ids);
ask('ids', 'mount_setattr', $mount, '', $empty_path, $attributes, length $attributes);
ask('enter', 'setns', fileno $mounts, $new_ns);
ask('mount /mnt', 'move_mount', $mount, '', $here, '/mnt', $from_empty_path);
