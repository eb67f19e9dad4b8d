# Enables simple quotas of a btrfs filesystem. Argument: a path in the filesystem.
#
# System calls: ioctl with BTRFS_IOC_QUOTA_CTL and BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA. btrfs-progs can do this since 6.7,
# but Debian 12 has an older version.
use strict;

my $control = pack("QQ", 4, 0);
open(my $pool, "<", $ARGV[0]) or die "$!\n";
ioctl($pool, 0xC0109428, $control) or die "$!\n";
