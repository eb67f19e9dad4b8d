import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { expect } from 'chai'
import { lxcPaths } from '../../agent/drivers/lxc/paths.js'
import { ensureSupportFiles } from '../../agent/drivers/lxc/support-files.js'
import { openPool, type Pool } from '../../agent/storage/pool.js'
import { ensureTestImage } from '../support/guests/debian-image.js'
import { HandmadeGuest } from '../support/host/handmade-guest.js'
import { scratchDirectory, testStorage } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const mib = 1024 ** 2
const createSubvolume = '0x5000940e'
const requests = [createSubvolume, '0x50009418', '0x50009401', '0x50009417']
/** Sends an ioctl(2) request twice: unchanged, and with a high bit. The kernel reads only the lower 32 bits. */
const script = `open(D, "<", "/root");
  for my $high (0, 1) { my $a = pack("qZ4088", fileno(D), "nest");
    print syscall(16, fileno(D), hex($ARGV[0]) + ($high << 32), $a) == 0 ? "made " : "$! "; }`

describe('the disk of a guest', function () {
  const scratch = scratchDirectory('btest-bound')
  let pool: Pool
  let guest: HandmadeGuest

  before(async () => {
    pool = await openPool(testStorage(scratch.path))
    await ensureTestImage(pool)
    const paths = lxcPaths({
      stateDir: `${scratch.path}/st`,
      runDir: `${scratch.path}/run`,
      namePrefix: 'btest',
    })
    await ensureSupportFiles(paths, [])
    guest = new HandmadeGuest('btest-bound-a', pool, scratch.path, [`lxc.seccomp.profile = ${paths.seccompProfile}`])
    execFileSync('btrfs', ['qgroup', 'limit', String(64 * mib), guest.root])
    guest.start()
    await guest.up()
  })
  after(() => {
    guest?.remove()
    scratch.wipe()
  })

  it('cannot contain further btrfs subvolumes, because they would have no size limit', () => {
    for (const request of requests)
      expect(guest.attach('perl', '-e', script, request), request).to.match(/^(Inappropriate ioctl for device ){2}$/)
    expect(guest.attach('ls', '-A', '/root')).to.not.include('nest')
  })

  it('cannot exceed its size, and accepts data again after files were deleted', async () => {
    const fill = 'dd if=/dev/zero of=/big bs=1M count=128 conv=fsync 2>&1; true'
    expect(guest.attach('sh', '-c', fill)).to.match(/Disk quota exceeded/)
    expect(statSync(`${guest.root}/big`).size).to.be.below(64 * mib)
    guest.attach('rm', '/big')
    // The first writes may fail, because btrfs may free reserved space only with its next commit.
    const write = (): string => guest.attach('sh', '-c', '{ echo word >/small && sync && cat /small; } 2>&1; true')
    await waitFor(() => write() === 'word\n', { what: write })
  })
})
