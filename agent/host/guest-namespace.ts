import { createHash } from 'node:crypto'
import { readKernelFile } from './proc.js'
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
my ($lxc_path, $name, $log) = @ARGV;
my ($clone, $prlimit) = (POSIX::uname())[4] eq 'aarch64' ? (220, 261) : (56, 302);

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

# A fork in a user namespace of its own (CLONE_NEWUSER); the map is its parent's to write.
sub separate {
  my $pid = syscall($clone, 0x10000000 | POSIX::SIGCHLD(), 0, 0, 0, 0);
  $pid < 0 ? die "user namespace: $!\n" : return $pid;
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
  my $raised = syscall($prlimit, 0, 0 + $resource, $endless, $old) == 0;
  $usual{$resource} = $old if $raised; # takes CAP_SYS_RESOURCE
}
my $outer = separate();
if (!$outer) {
  close $_ for $holding, $made, $map;
  sysread($mapped, my $word, 1) == 1 or die "user namespace: no map\n";
  -e "/proc/sys/user/$_" and put("/proc/sys/user/$_", $counts{$_}) for keys %counts;
  for my $resource (keys %resources) {
    my $most = pack('Q2', $resources{$resource}, $resources{$resource});
    syscall($prlimit, 0, 0 + $resource, $most, 0);
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
syscall($prlimit, 0, 0 + $_, $usual{$_}, 0) for keys %usual;
close $_ for $held, $making, $mapped;
for my $kind ('uid_map', 'gid_map') {
  put("/proc/$outer/$kind", join '', map { my ($id, undef, $count) = split; "$id $id $count\n" } split /\n/, take("/proc/self/$kind"));
}
syswrite($map, "\n");
my ($inner) = (<$made> // '') =~ /^(\d+)$/ or die "user namespace: not made\n";
if (($ENV{BERTH_CONFINEMENT} // '') ne $confinement) {
  confine();
  $ENV{BERTH_CONFINEMENT} = $confinement;
}
exec '/usr/bin/lxc-start', '-P', $lxc_path, '-n', $name, '-o', $log, '-l', 'ERROR',
  '-s', "lxc.namespace.share.user=/proc/$inner/ns/user";
die "lxc-start: $!\n";
`

/**
 * Perl code that becomes lxc-start, for a container whose user namespace has these bounds. Arguments: lxc's path,
 * the container's name, a log file. A start by a process that has this very filter from an earlier one stacks no other:
 * filters are for ever, and of a guest that reboots again and again the kernel would refuse the hundredth.
 * @param filter seccomp program for the container and its monitor, bytes of struct sock_filter
 */
export function guestStarter(bounds: NamespaceBounds, filter: Buffer): string {
  const { counts, resources } = bounds
  const mark = `my $confinement = '${confinementOf(bounds, filter)}';\n`
  return `${mark}${hash('counts', counts)}${hash('resources', resources)}${confinement(filter)}${program}`
}

/** Tells filters and bounds apart. A guest's monitor has that of its start in its environment, which only root changes. */
export function confinementOf(bounds: NamespaceBounds, filter: Buffer): string {
  return createHash('sha256').update(JSON.stringify(bounds)).update(filter).digest('hex').slice(0, 16)
}

/** @returns what the monitor was started with; undefined: before there were such, or it is gone */
export function readConfinement(monitorPid: number): string | undefined {
  const variables = (readKernelFile(`/proc/${monitorPid}/environ`) ?? '').split('\0')
  return variables.find((variable) => variable.startsWith('BERTH_CONFINEMENT='))?.split('=')[1]
}

function hash(name: string, values: Readonly<Record<string, number>>): string {
  return `my %${name} = (${Object.entries(values)
    .map(([key, value]) => `${key} => ${value}`)
    .join(', ')});\n`
}
