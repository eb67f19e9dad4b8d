# Makes a request about subvolumes and quota groups of btrfs (linux/btrfs.h). Arguments: `snapshot`, `create`, `join`,
# `bound`, `id`, `ungroup`, `destroy`, `exchange` or `commit`, then the arguments of the function below that it calls. An
# empty argument counts as missing. Structures have the layout of 64-bit machines.
#
# System calls: ioctl with the BTRFS_IOC_ requests named below, which btrfs(8) of Debian 12 either does not offer or runs
# ten times slower, and renameat2 with RENAME_EXCHANGE, which neither Node nor mv(1) has.
use strict;
use warnings;
use Errno;
use Fcntl qw(O_RDONLY O_DIRECTORY O_NOFOLLOW LOCK_EX LOCK_UN);
use IO::Handle;
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

# Creates a group by BTRFS_IOC_QGROUP_CREATE. If bytes are given, sets its limit by BTRFS_IOC_QGROUP_LIMIT with
# BTRFS_QGROUP_LIMIT_MAX_RFER, where -1 means unlimited. If the group existed but a sweep of empty groups deletes it between
# the two requests, it is created again.
sub ensure_group {
  my ($in, $group, $bytes) = @_;
  my $create = pack('QQ', 1, $group);
  for my $attempts_left (reverse 0 .. 4) {
    ioctl($in, 0x4010942A, $create) or $!{EEXIST} or die "quota group: $!\n";
    return if $bytes eq '' || set_bound($in, $group, $bytes);
    die "limit of the quota group: $!\n" unless $!{ENOENT} && $attempts_left;
  }
}

sub set_bound {
  my ($in, $group, $bytes) = @_;
  my $limit = pack('Q Qq Q3', $group, 1, $bytes > 0 ? $bytes : -1, 0, 0, 0);
  return ioctl($in, 0x8030942B, $limit);
}

# Returns the id of a subvolume, by BTRFS_IOC_INO_LOOKUP of its root directory. A newer subvolume has a larger id.
sub subvolume_id {
  my ($directory) = @_;
  my $arguments = pack('Q Q Z4080', 0, 256, '');
  ioctl($directory, 0xD0009412, $arguments) or die "subvolume id: $!\n";
  return unpack('Q', $arguments);
}

sub open_directory {
  my ($path) = @_;
  sysopen(my $directory, $path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or return undef;
  return $directory;
}

# Takes a snapshot by BTRFS_IOC_SNAP_CREATE_V2, read-only by BTRFS_SUBVOL_RDONLY, and as a member of a group by
# BTRFS_SUBVOL_QGROUP_INHERIT. btrfs(8) could add the snapshot to a group only afterwards.
sub snapshot {
  my ($source, $directory, $name, $read_only, $group, $bytes) = @_;
  my $from = open_directory($source) or die "$source: $!\n";
  my $to = open_directory($directory) or die "$directory: $!\n";
  ensure_group($to, $group, $bytes) if $group;
  my $inherit = pack('Q4 Q5 Q', 0, 1, (0) x 7, $group || 0);
  my ($length, $pointer) = $group ? (length $inherit, unpack('J', pack('P', $inherit))) : (0, 0);
  my $flags = ($read_only ? 2 : 0) | ($group ? 4 : 0);
  my $arguments = pack('q Q Q Q Q Q2 Z4040', fileno $from, 0, $flags, $length, $pointer, 0, 0, $name);
  ioctl($to, 0x50009417, $arguments) or die "$!\n";
}

# Returns the volume's id and the directory that contains it. Requests about groups use that directory: requests on the
# volume itself count towards its limit, so a full volume would answer EDQUOT.
sub open_volume {
  my ($path) = @_;
  my $volume = open_directory($path) or die "$path: $!\n";
  my $above = open_directory("$path/..") or die "$path/..: $!\n";
  return (subvolume_id($volume), $above);
}

# Creates a subvolume by BTRFS_IOC_SUBVOL_CREATE_V2, as a member of a group by BTRFS_SUBVOL_QGROUP_INHERIT.
sub create {
  my ($directory, $name, $group, $bytes) = @_;
  my $to = open_directory($directory) or die "$directory: $!\n";
  ensure_group($to, $group, $bytes) if $group;
  my $inherit = pack('Q4 Q5 Q', 0, 1, (0) x 7, $group || 0);
  my ($length, $pointer) = $group ? (length $inherit, unpack('J', pack('P', $inherit))) : (0, 0);
  my $arguments = pack('q Q Q Q Q Q2 Z4040', 0, 0, $group ? 4 : 0, $length, $pointer, 0, 0, $name);
  ioctl($to, 0x50009418, $arguments) or die "$!\n";
}

# Makes a volume a member of a group, by BTRFS_IOC_QGROUP_ASSIGN.
sub join_group {
  my ($path, $group, $bytes) = @_;
  my ($id, $above) = open_volume($path);
  ensure_group($above, $group, $bytes);
  my $assign = pack('Q3', 1, $id, $group);
  ioctl($above, 0x40189429, $assign) or $!{EEXIST} or die "adding the subvolume to the quota group: $!\n";
}

sub print_id { my ($id) = open_volume($_[0]); print $id }

# Sets the limit of the volume's own group, whose number is the volume's id.
sub bound_volume {
  my ($path, $bytes) = @_;
  my ($id, $above) = open_volume($path);
  set_bound($above, $id, $bytes) or die "limit of the quota group: $!\n";
}

# Removes groups by BTRFS_IOC_QGROUP_CREATE. Groups that have members stay.
sub remove_groups {
  my ($path, @groups) = @_;
  my $in = open_directory($path) or die "$path: $!\n";
  for my $group (@groups) {
    my $remove = pack('QQ', 0, $group);
    ioctl($in, 0x4010942A, $remove);
  }
}

# Deletes subvolumes by BTRFS_IOC_SNAP_DESTROY, which takes 0.2 ms. btrfs(8) takes 15 ms, because it first reads many
# files of /proc and /sys.
sub destroy {
  my ($path, @names) = @_;
  my $in = open_directory($path) or die "$path: $!\n";
  for my $name (@names) {
    my $arguments = pack('q Z4088', 0, $name);
    ioctl($in, 0x5000940F, $arguments) or die "$!\n";
  }
}

sub find_id {
  my ($name) = @_;
  my $volume = open_directory($name);
  return subvolume_id($volume) if $volume;
  return 0 if $!{ENOENT};
  die "$name: $!\n";
}

# Exchanges the names of two subvolumes if `next` is the newer one. The lock excludes a command of a killed agent that may
# still be running: two exchanges would cancel each other out. The fsync of the directory commits the transaction.
sub exchange {
  my ($path, $current, $next) = @_;
  chdir $path or die "$path: $!\n";
  my $directory = open_directory('.') or die "$path: $!\n";
  flock($directory, LOCK_EX) or die "lock of $path: $!\n";
  my ($current_id, $next_id) = (find_id($current), find_id($next));
  my $due = $next_id > $current_id;
  if ($due && $current_id) { call('renameat2', -100, $current, -100, $next, 2) == 0 or die "$!\n" }
  elsif ($due) { rename($next, $current) or die "$!\n" }
  flock($directory, LOCK_UN) or die "unlocking $path: $!\n";
  $directory->sync or die "sync of $path: $!\n";
  print $due ? 'exchanged' : $next_id ? 'done' : 'nothing';
}

# Commits the transaction by BTRFS_IOC_START_SYNC and BTRFS_IOC_WAIT_SYNC, without writing guests' dirty files. The kernel
# frees deleted subvolumes after a commit. The new time of the directory ensures that there is something to commit.
sub commit {
  my ($path) = @_;
  my $in = open_directory($path) or die "$path: $!\n";
  utime(undef, undef, $path) or die "times of $path: $!\n";
  my $transaction = pack('Q', 0);
  ioctl($in, 0x80089418, $transaction) or die "start of a transaction: $!\n";
  ioctl($in, 0x40089416, $transaction) or die "wait for the transaction: $!\n";
}

my %requests = (
  snapshot => \&snapshot,
  create => \&create,
  join => \&join_group,
  bound => \&bound_volume,
  id => \&print_id,
  ungroup => \&remove_groups,
  destroy => \&destroy,
  exchange => \&exchange,
  commit => \&commit,
);
my $request = shift @ARGV;
$requests{$request}->(@ARGV);
