# Starts a guest: runs lxc-start with a user namespace that is made here. Arguments: lxc's path, the container's name, a log
# file, a mark that identifies filter and limits, the filter as confine() takes it, then the limits of the namespace:
# `NAME=VALUE` for a file of /proc/sys/user, `NUMBER=VALUE` for a resource of prlimit(2). A process that has the mark in its
# environment has the filter from an earlier start.
#
# System calls: clone with CLONE_NEWUSER, prlimit64 and a seccomp filter between fork and exec. Node cannot make them;
# unshare(1) cannot make one namespace below another with a map written from the one between.
#
# The kernel counts namespaces, inotify and fanotify objects, queued signals and message queues by user and user
# namespace, and again for the creator in each namespace above (ucounts). A limit in the guest's own namespace would
# hold for each of its 65,536 users separately, and its root could raise it. So the guest's namespace has an otherwise
# empty parent: there everything that its users create counts as the creator's, and nobody can change the limit. At the
# host's root above, resources are unlimited, since that is one count for all guests.
#
# Only a process in the parent may write the map of a namespace, hence two processes. The first enters the parent and
# ends once the second one, which makes the guest's namespace, has its map. The second waits until lxc-start, which has
# the namespace open by then, ends. If a process dies, a pipe closes and the start fails.
use strict;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($lxc_path, $name, $log, $confinement, $filter, @limits) = @ARGV;
my (%counts, %resources);
for (@limits) {
  my ($what, $value) = /^(\w+)=(\d+)$/ or die "limit $_\n";
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

# A fork in a user namespace of its own (CLONE_NEWUSER); its parent must write the map.
sub separate {
  return ask('user namespace', 'clone', 0x10000000 | POSIX::SIGCHLD(), 0, 0, 0, 0);
}

my ($base) = take("$lxc_path/$name/config") =~ /^lxc\.idmap = u 0 (\d+) 65536$/m or die "$name: no lxc.idmap\n";
$^F = 255; # passed on to lxc-start
pipe(my $held, my $holding) or die "pipe: $!\n";
$^F = 2;
pipe(my $made, my $making) && pipe(my $mapped, my $map) or die "pipe: $!\n";
my $endless = pack('Q2', ~0, ~0);
my %usual;
for my $resource (keys %resources) {
  my $old = pack('Q2', 0, 0);
  my $raised = call('prlimit64', 0, 0 + $resource, $endless, $old) == 0;
  $usual{$resource} = $old if $raised; # needs CAP_SYS_RESOURCE
}
my $outer = separate();
if (!$outer) {
  close $_ for $holding, $made, $map;
  sysread($mapped, my $word, 1) == 1 or die "user namespace: no map\n";
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
my ($inner) = (<$made> // '') =~ /^(\d+)$/ or die "user namespace: not made\n";
if (($ENV{BERTH_CONFINEMENT} // '') ne $confinement) {
  confine($filter);
  $ENV{BERTH_CONFINEMENT} = $confinement;
}
exec '/usr/bin/lxc-start', '-P', $lxc_path, '-n', $name, '-o', $log, '-l', 'ERROR',
  '-s', "lxc.namespace.share.user=/proc/$inner/ns/user";
die "lxc-start: $!\n";
