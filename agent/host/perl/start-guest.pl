# Starts a guest: runs lxc-start with a user namespace that this program creates. Arguments: lxc's path, the container's
# name, a log file, a hash that identifies filter and limits, the filter in the form of confine(), then the limits of the
# namespace: `NAME=VALUE` for a file of /proc/sys/user, `NUMBER=VALUE` for a resource of prlimit(2). A process that has the
# hash in its environment already has the filter from an earlier start.
#
# System calls: clone with CLONE_NEWUSER, prlimit64 and a seccomp filter between fork and exec, and those of mount_volume.
# Node cannot make them, and unshare(1) cannot create a namespace inside another one whose processes write its map.
#
# The kernel counts namespaces, inotify and fanotify objects, queued signals and message queues for each user of a user
# namespace, and also for the namespace's creator in each namespace above (ucounts). A limit in the guest's own namespace
# would apply to each of its 65,536 users separately, and its root could raise it. So the guest's namespace is inside
# another one that contains nothing else. In that outer namespace, all objects of the guest count for one user, and the
# guest cannot change the limit. In the host's namespace, resources are unlimited, because all guests share one count.
#
# Only a process in the outer namespace may write the map of the inner one, so there are two processes. The first one
# enters the outer namespace, and ends when the second one has the inner map. The second one waits until
# lxc-start, which has opened the namespace, ends. If a process dies, a pipe closes and the start fails.
use strict;
use Fcntl;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($lxc_path, $name, $log, $confinement, $filter, @limits) = @ARGV;
my (%counts, %resources);
for (@limits) {
  my ($what, $value) = /^(\w+)=(\d+)$/ or die "invalid limit: $_\n";
  ($what =~ /^\d+$/ ? \%resources : \%counts)->{$what} = $value;
}

sub put {
  my ($path, $text) = @_;
  open(my $file, '>', $path) or die "$path: $!\n";
  defined syswrite($file, $text) && close $file or die "$path: $!\n";
}

sub take {
  my ($path) = @_;
  open(my $file, '<', $path) or die "$path: $!\n";
  local $/;
  return <$file>;
}

# Forks a process in a new user namespace (CLONE_NEWUSER). Its parent must write the map.
sub separate {
  return ask('user namespace', 'clone', 0x10000000 | POSIX::SIGCHLD(), 0, 0, 0, 0);
}

# Mounts a guest's volume with the ids of a user namespace, in a new mount namespace of this process. Existing mounts at
# the target are from before a reboot of the guest. Later mounts of the host appear in the new namespace, but not the
# other way round.
sub mount_volume {
  my ($volume, $target, $user_namespace) = @_;
  my ($here, $clone, $empty_path, $from_empty_path) = (-100, 1, 0x1000, 4);
  my ($new_ns, $recursive_slave, $nodev, $idmap, $detach) = (0x00020000, 0x84000, 0x4, 0x00100000, 2);
  sysopen(my $ids, $user_namespace, O_RDONLY) or die "$user_namespace: $!\n";
  ask('mount namespace', 'unshare', $new_ns);
  ask('mounts', 'mount', 0, '/', 0, $recursive_slave, 0);
  1 while call('umount2', $target, $detach) == 0;
  my $mount = ask("mount $volume", 'open_tree', $here, "$volume", $clone | close_on_exec());
  my $attributes = pack('Q4', $nodev | $idmap, 0, 0, fileno $ids);
  ask('ids', 'mount_setattr', $mount, '', $empty_path, $attributes, length $attributes);
  ask("mount $target", 'move_mount', $mount, '', $here, "$target", $from_empty_path);
}

my $config = take("$lxc_path/$name/config");
my ($base) = $config =~ /^lxc\.idmap = u 0 (\d+) 65536$/m or die "the configuration of $name has no lxc.idmap\n";
$^F = 255; # the next pipe stays open in lxc-start
pipe(my $held, my $holding) or die "pipe: $!\n";
$^F = 2;
pipe(my $made, my $making) && pipe(my $mapped, my $map) or die "pipe: $!\n";
my $endless = pack('Q2', ~0, ~0);
my %usual;
for my $resource (keys %resources) {
  my $old = pack('Q2', 0, 0);
  my $raised = call('prlimit64', 0, 0 + $resource, $endless, $old) == 0;
  $usual{$resource} = $old if $raised; # raising a limit requires CAP_SYS_RESOURCE
}
my $outer = separate();
if (!$outer) {
  close $_ for $holding, $made, $map;
  sysread($mapped, my $word, 1) == 1 or die "the user namespace received no id map\n";
  -e "/proc/sys/user/$_" and put("/proc/sys/user/$_", $counts{$_}) for keys %counts;
  for my $resource (keys %resources) {
    my $most = pack('Q2', $resources{$resource}, $resources{$resource});
    call('prlimit64', 0, 0 + $resource, $most, 0);
  }
  my $inner = separate();
  if (!$inner) {
    POSIX::close($_) for 0, 1, 2, fileno $making;
    sysread($held, my $end, 1);
    POSIX::_exit(0);
  }
  put("/proc/$inner/$_", "0 $base 65536\n") for 'uid_map', 'gid_map';
  syswrite($making, "$inner\n");
  POSIX::_exit(0);
}
call('prlimit64', 0, 0 + $_, $usual{$_}, 0) for keys %usual;
close $_ for $held, $making, $mapped;
for my $kind ('uid_map', 'gid_map') {
  put("/proc/$outer/$kind", join '', map { my ($id, undef, $count) = split; "$id $id $count\n" } split /\n/, take("/proc/self/$kind"));
}
syswrite($map, "\n");
my ($inner) = (<$made> // '') =~ /^(\d+)$/ or die "the user namespace was not created\n";
if (my ($volume) = $config =~ m{^# volume (/.+)$}m) {
  my ($target) = $config =~ m{^lxc\.rootfs\.path = dir:(/.+)$}m or die "the configuration of $name has no lxc.rootfs.path\n";
  mount_volume($volume, $target, "/proc/$inner/ns/user");
}
if (($ENV{BERTH_CONFINEMENT} // '') ne $confinement) {
  confine($filter);
  $ENV{BERTH_CONFINEMENT} = $confinement;
}
exec '/usr/bin/lxc-start', '-P', $lxc_path, '-n', $name, '-o', $log, '-l', 'ERROR',
  '-s', "lxc.namespace.share.user=/proc/$inner/ns/user";
die "lxc-start: $!\n";
