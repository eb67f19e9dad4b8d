import { basename, dirname } from 'node:path'
import { runPerl } from './process.js'

/*
 * Requests of linux/btrfs.h that Debian 12's btrfs-progs cannot make, or make at ten times the cost. Structures are
 * packed as on all 64-bit machines.
 */

/** BTRFS_IOC_QUOTA_CTL with BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA; btrfs-progs have it since 6.7. */
const enableSimpleQuota = `
  my $control = pack("QQ", 4, 0);
  open(my $pool, "<", $ARGV[0]) or die "$!\\n";
  ioctl($pool, 0xC0109428, $control) or die "$!\\n";`

/**
 * BTRFS_IOC_SNAP_CREATE_V2 with BTRFS_SUBVOL_QGROUP_INHERIT, BTRFS_QGROUP_INHERIT_SET_LIMITS and
 * BTRFS_QGROUP_LIMIT_MAX_RFER: btrfs(8) can bound a snapshot only afterwards.
 */
const snapshotBounded = `
  my ($source, $directory, $name, $bytes) = @ARGV;
  open(my $from, "<", $source) or die "$source: $!\\n";
  open(my $to, "<", $directory) or die "$directory: $!\\n";
  my $inherit = pack("Q4 Q5", 1, 0, 0, 0, 1, $bytes, 0, 0, 0);
  my $pointer = unpack("J", pack("P", $inherit));
  my $arguments = pack("q Q Q Q Q Q2 Z4040", fileno($from), 0, 4, length($inherit), $pointer, 0, 0, $name);
  ioctl($to, 0x50009417, $arguments) or die "$!\\n";`

/** BTRFS_IOC_SNAP_DESTROY; btrfs(8) reads half of /proc and /sys first: 15 ms beside 0.2. */
const destroySnapshot = `
  my ($directory, $name) = @ARGV;
  open(my $in, "<", $directory) or die "$directory: $!\n";
  my $arguments = pack("q Z4088", 0, $name);
  ioctl($in, 0x5000940F, $arguments) or die "$!\n";`

/**
 * Gone from the tree at once; the commit comes later (after a power loss it may be back), the space too.
 * @throws {CommandError} "Directory not empty" where others are inside
 */
export async function deleteSubvolume(path: string): Promise<void> {
  await runPerl(destroySnapshot, [dirname(path), basename(path)])
}

export async function enableSimpleQuotas(path: string): Promise<void> {
  await runPerl(enableSimpleQuota, [path])
}

/**
 * A writable snapshot that is on the disk when this returns; under simple quotas bounded, in the same
 * transaction. Under classic ones the kernel forgets the bound.
 * @throws {CommandError} also when `directory` has that name already
 */
export async function snapshotWithLimit(
  source: string,
  target: { directory: string; name: string },
  limitBytes: number,
): Promise<void> {
  const args = [source, target.directory, target.name, String(limitBytes)]
  await runPerl(snapshotBounded, args)
}
