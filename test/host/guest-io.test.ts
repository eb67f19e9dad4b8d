import { execFileSync } from 'node:child_process'
import { expect } from 'chai'
import type { Machine } from '../../agent/drivers/machine.js'
import { describeThrottling } from '../../agent/drivers/lxc/host-facts.js'
import { readCgroupLayout } from '../../agent/host/process/cgroup.js'
import { useLxcHost } from '../support/host/lxc-lab.js'

const mb = 1_000_000
const bytesEach = 24 * 1024 ** 2

/** Measures rates in MB/s in a container on btrfs on a loop device. */
describe('the I/O limits of a guest', function () {
  const lab = useLxcHost({ name: 'btest-gio', prefix: 'xio', subnet: '10.214.78' })

  const limited = (read: number, write: number): Machine['limits'] => ({
    ...lab.host.machine().limits,
    ioReadBytesPerSec: read * mb,
    ioWriteBytesPerSec: write * mb,
  })
  const rateOf = (machine: Machine, ...operands: string[]): number => {
    const started = performance.now()
    execFileSync('lxc-attach', lab.attach(machine, 'dd', ...operands, 'bs=1M', 'status=none'), {
      stdio: 'pipe',
    })
    return bytesEach / mb / ((performance.now() - started) / 1000)
  }
  const write = (machine: Machine, ...flags: string[]): number =>
    rateOf(machine, 'if=/dev/zero', 'of=/root/io', 'count=24', ...flags)
  const read = (machine: Machine): number => rateOf(machine, 'if=/root/io', 'of=/dev/null', 'iflag=direct')

  /** Fails if one rate is above the range, or if five rates are below it. A busy machine may be too slow at times. */
  function expectRate(measure: () => number, [least, most]: readonly [number, number], what = ''): void {
    let rate = 0
    for (let tries = 0; rate < least && tries < 5; tries++) {
      rate = measure()
      expect(rate, what).to.be.at.most(most)
    }
    expect(rate, what).to.be.at.least(least)
  }

  /** Measures up to five times until the rate is low enough. cgroup v1 does not limit write-back if memory is short. */
  function firstBounded(measure: () => number, most: number): number {
    let rate = measure()
    for (let tries = 1; rate > most && tries < 5; tries++) rate = measure()
    return rate
  }

  it('limit reads and writes of the disk separately', async () => {
    const machine = await lab.started({ limits: limited(12, 6) })
    expectRate(() => write(machine, 'oflag=direct'), [4, 7])
    expectRate(() => read(machine), [8, 14])
  })

  it('can be changed and removed while the guest runs', async () => {
    const machine = await lab.started({ limits: limited(6, 6) })
    for (const [limits, range] of [
      [limited(0, 12), [8, 14]],
      [limited(0, 0), [20, Infinity]],
    ] as const) {
      expect(await lab.host.driver.resize({ ...machine, limits })).to.include({
        outcome: 'applied',
        changed: true,
      })
      write(machine, 'oflag=direct') // uses up the burst that the former limit still permits
      expectRate(() => write(machine, 'oflag=direct'), range)
    }
  })

  it('limit each kind of synchronous write', async () => {
    const machine = await lab.started({ limits: limited(0, 6) })
    for (const flags of [['conv=fsync,notrunc'], ['oflag=sync', 'conv=notrunc']])
      expectRate(() => firstBounded(() => write(machine, ...flags), 7), [3.5, 7], flags.join())
  })

  it('cause a warning for the operator if the host cannot limit all writes', () => {
    const place = { pool: `${lab.host.path}/pool`, loop_file: `${lab.host.path}/pool.img` }
    const told = lab.host.driver.ensureSeparation(place)
    expect(told.some((line) => line.includes('io_write_mbps'))).to.equal(readCgroupLayout().version === 1)
    expect(describeThrottling(undefined)[0]).to.include('io_read_mbps')
    expect(describeThrottling('7:0')).to.deep.equal([])
  })
})
