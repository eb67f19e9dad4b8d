import { confinement } from './seccomp.js'

/** Bounds of what all users of a guest have together. */
export interface NamespaceBounds {
  /** Files of /proc/sys/user and their values; those that the kernel has not are left out. */
  readonly counts: Readonly<Record<string, number>>
  /** Numbers of resources (linux/resource.h) that are counted by namespace, and their values. */
  readonly resources: Readonly<Record<number, number>>
}

/*
 * The kernel counts namespaces, inotify and fanotify objects, queued signals and message queues by user and user
 * namespace, and again for the creator in each namespace above (ucounts). A limit in the guest's own namespace holds for
 * each of its 65,536 users alone, and its root may raise it. So the guest's has a parent of its own, in which nobody
 * is: there all that its users create counts as the creator's, and nobody can change the limit. Above it, at the host's
 * root, resources are without bound, for that is one count for all guests.
 *
 * Only who is in the parent may write the map of a namespace, hence two processes: the first goes to the parent and ends
 * once the second, that the guest's namespace is made by, has its map. That one waits until lxc-start ends, which by
 * then has the namespace open. Processes that die take the start with them: a pipe ends.
 */
const program = String.raw`
use strict;
use POSIX ();
my ($lxc_path, $name, $log, $again) = @ARGV;
my ($unshare, $prlimit) = (POSIX::uname())[4] eq 'aarch64' ? (97, 261) : (272, 302);

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

sub limit { syscall($prlimit, 0, 0 + $_[0], pack('Q2', $_[1], $_[1]), 0) }
sub separate { syscall($unshare, 0x10000000) == 0 or die "user namespace: $!\n" }
sub await { sysread($_[0], my $word, 1) == 1 or die "user namespace: no answer\n" }

my ($base) = take("$lxc_path/$name/config") =~ /^lxc\.idmap = u 0 (\d+) 65536$/m or die "$name: no lxc.idmap\n";
$^F = 255; # passed on to lxc-start
pipe(my $held, my $holding) or die "pipe: $!\n";
$^F = 2;
pipe(my $ready, my $tell) && pipe(my $mapped, my $map) or die "pipe: $!\n";
my $outer = fork // die "fork: $!\n";
if (!$outer) {
  close $_ for $holding, $ready, $map;
  limit($_, ~0) for keys %resources;
  separate();
  syswrite($tell, "\n");
  await($mapped);
  -e "/proc/sys/user/$_" and put("/proc/sys/user/$_", $counts{$_}) for keys %counts;
  limit($_, $resources{$_}) for keys %resources;
  pipe(my $made, my $making) or die "pipe: $!\n";
  my $inner = fork // die "fork: $!\n";
  if (!$inner) {
    close $_ for $tell, $mapped, $made;
    separate();
    POSIX::close($_) for 0, 1, 2;
    syswrite($making, "\n");
    sysread($held, my $end, 1);
    POSIX::_exit(0);
  }
  close $making;
  await($made);
  put("/proc/$inner/$_", "0 $base 65536\n") for 'uid_map', 'gid_map';
  syswrite($tell, "$inner\n");
  POSIX::_exit(0);
}
close $_ for $held, $tell, $mapped;
await($ready);
for my $kind ('uid_map', 'gid_map') {
  put("/proc/$outer/$kind", join '', map { my ($id, undef, $count) = split; "$id $id $count\n" } split /\n/, take("/proc/self/$kind"));
}
syswrite($map, "\n");
my ($inner) = (<$ready> // '') =~ /^(\d+)$/ or die "user namespace: not made\n";
waitpid($outer, 0);
confine() unless $again;
exec '/usr/bin/lxc-start', '-P', $lxc_path, '-n', $name, '-o', $log, '-l', 'ERROR',
  '-s', "lxc.namespace.share.user=/proc/$inner/ns/user";
die "lxc-start: $!\n";
`

/**
 * Perl code that becomes lxc-start, for a container whose user namespace has these bounds. Arguments: lxc's path,
 * the container's name, a log file, and `again` where the process has the filter from an earlier start.
 * @param filter seccomp program for the container and its monitor, bytes of struct sock_filter
 */
export function guestStarter({ counts, resources }: NamespaceBounds, filter: Buffer): string {
  return `${hash('counts', counts)}${hash('resources', resources)}${confinement(filter)}${program}`
}

function hash(name: string, values: Readonly<Record<string, number>>): string {
  return `my %${name} = (${Object.entries(values)
    .map(([key, value]) => `${key} => ${value}`)
    .join(', ')});\n`
}
