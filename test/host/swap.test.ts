import { expect } from 'chai'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AgentConfigSchema, type AgentConfig } from '../../agent/config.js'
import { readCgroupLayout } from '../../agent/host/process/cgroup.js'
import { ensureSwap } from '../../agent/swap/ensure.js'
import { removeSwap } from '../../agent/swap/remove.js'
import { discard } from '../../agent/swap/steps.js'
import { SwapFiles } from '../../agent/swap/swap-files.js'
import { validateConfig } from '../../shared/config.js'
import { silentLog } from '../support/gateway/redis.js'
import { refusal } from '../support/refusal.js'
import { scratchDirectory, swapsBelow } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const mib = 1024 ** 2
const { signal } = new AbortController()

describe('swap files on a real host', function () {
  const scratch = scratchDirectory('btest-swap')
  const units = join(scratch.path, 'units')
  const others = readFileSync('/proc/swaps', 'utf8')
  let config: AgentConfig
  let swap: SwapFiles
  let count = 0

  function open(directory: string): void {
    const given = { state_dir: directory, swap: { unit_dir: units } }
    config = validateConfig(AgentConfigSchema, given, 'test')
    swap = new SwapFiles(config)
  }

  /** Creates a file system in a file, and mounts it. @returns its mount point */
  function mount(type: string, mb: number, options = 'loop'): string {
    const [image, target] = [join(scratch.path, `fs-${++count}.img`), join(scratch.path, `fs-${count}`)]
    mkdirSync(target)
    sh('truncate', '-s', `${mb}M`, image)
    sh(`mkfs.${type}`, '-q', image)
    sh('mount', '-o', options, image, target)
    return target
  }

  beforeEach(() => {
    const directory = join(scratch.path, `state-${++count}`)
    mkdirSync(directory)
    mkdirSync(units, { recursive: true })
    open(directory)
  })
  afterEach(async () => {
    await removeSwap(config)
    expect(existsSync(join(config.state_dir, 'swap')), 'its directory is deleted too').to.equal(false)
    expect(readdirSync(units).filter((name) => name.endsWith('.swap'))).to.deep.equal([])
  })
  after(() => {
    scratch.wipe()
    expect(readFileSync('/proc/swaps', 'utf8'), 'the machine’s own swap').to.equal(others)
  })

  const fileOf = (slot: 0 | 1) => join(config.state_dir, slot === 0 ? 'swap/swapfile' : 'swap/swapfile.2')

  it('are used with the requested size, and only root can access them', async () => {
    await swap.make(0, 64 * mib, signal)
    await swap.use(0)
    const { files, totalBytes } = await swap.read()
    const known = { slot: 0, path: fileOf(0), sizeBytes: 64 * mib, active: true, kept: false, usedBytes: 0 }
    expect(files).to.deep.equal([known])
    expect(totalBytes).to.be.at.least(64 * mib)
    expect(statSync(fileOf(0)).mode & 0o777).to.equal(0o600)
    expect(statSync(join(config.state_dir, 'swap')).mode & 0o777).to.equal(0o700)
    await swap.use(0)
    expect(swapsBelow(scratch.path), 'used once').to.deep.equal([fileOf(0)])
    await swap.release(0)
    await swap.release(0)
    expect((await swap.read()).files[0]).to.include({ active: false, sizeBytes: 64 * mib })
  })

  it('have a valid systemd unit that activates them at boot', async function () {
    await swap.make(0, 64 * mib, signal)
    await swap.keep(0, true)
    await swap.keep(0, true)
    const [unit = ''] = readdirSync(units).filter((name) => name.endsWith('.swap'))
    const link = join(units, 'swap.target.wants', unit)
    expect(readFileSync(link, 'utf8')).to.contain(`What=${fileOf(0)}\n`)
    expect((await swap.read()).files[0]?.kept).to.equal(true)
    const { error, status, stderr } = spawnSync('systemd-analyze', ['verify', join(units, unit)], {
      encoding: 'utf8',
    })
    if (!error)
      expect(
        stderr.split('\n').filter((line) => line.includes(unit)),
        `${status}`,
      ).to.deep.equal([])
    await ensureSwap(swap, silentLog) // activates the swap, as after a boot without systemd
    expect(swapsBelow(scratch.path)).to.deep.equal([fileOf(0)])
    await swap.keep(0, false)
    expect(existsSync(link)).to.equal(false)
  })

  it('are deleted when the agent starts if they are incomplete or not in use', async () => {
    await swap.make(0, 64 * mib, signal)
    await swap.make(1, 96 * mib, signal)
    await swap.use(1)
    writeFileSync(`${fileOf(0)}.new`, 'half')
    await ensureSwap(swap, silentLog)
    expect(readdirSync(join(config.state_dir, 'swap'))).to.deep.equal(['swapfile.2'])
    await swap.release(1)
    await ensureSwap(swap, silentLog)
    expect(swapsBelow(scratch.path)).to.deep.equal([])
  })

  it('are found even if the path of their directory is a link', async () => {
    const real = join(scratch.path, `real-${count}`)
    mkdirSync(real)
    sh('ln', '-s', real, join(scratch.path, `link-${count}`))
    open(join(scratch.path, `link-${count}`))
    await swap.make(0, 64 * mib, signal)
    await swap.use(0)
    expect((await swap.read()).files[0]).to.include({ active: true })
  })

  it('change neither the mode of the operator’s directory nor other files in this directory', async () => {
    const directory = join(scratch.path, `shared-${count}`)
    mkdirSync(directory, { mode: 0o755 })
    writeFileSync(join(directory, 'other'), '')
    const given = {
      state_dir: config.state_dir,
      swap: { unit_dir: units, file: join(directory, 'swapfile') },
    }
    swap = new SwapFiles(validateConfig(AgentConfigSchema, given, 'test'))
    await swap.make(0, 64 * mib, signal)
    await swap.use(0)
    expect(statSync(directory).mode & 0o777).to.equal(0o755)
    await removeSwap(validateConfig(AgentConfigSchema, given, 'test'))
    expect(readdirSync(directory)).to.deep.equal(['other'])
  })

  it('do not affect swap files of other programs', async () => {
    mkdirSync(join(config.state_dir, 'swap'))
    sh('fallocate', '-l', '1M', fileOf(0))
    sh('chmod', '600', fileOf(0))
    sh('mkswap', '-q', fileOf(0))
    sh('swapon', fileOf(0))
    expect((await swap.read()).files).to.deep.equal([])
    expect(await refusal(swap.make(0, 64 * mib, signal))).to.match(/^invalid_state:/)
    await discard(swap, 0, signal)
    await removeSwap(config)
    expect(swapsBelow(scratch.path)).to.deep.equal([fileOf(0)])
    sh('swapoff', fileOf(0))
    sh('rm', fileOf(0))
  })

  it('are neither compressed nor copied on write on btrfs, so that their directory can have snapshots', async () => {
    const top = mount('btrfs', 512, 'loop,compress-force=zstd')
    open(join(top, 'state'))
    mkdirSync(config.state_dir)
    await swap.make(0, 64 * mib, signal)
    await swap.use(0)
    expect(swapsBelow(scratch.path)).to.deep.equal([fileOf(0)])
    expect(sh('lsattr', fileOf(0)).split(' ')[0]).to.contain('C')
    sh('btrfs', '-q', 'subvolume', 'snapshot', top, join(top, 'kept'))
    expect(existsSync(join(top, 'kept/state/swap/swapfile'))).to.equal(false)
  })

  for (const type of ['ext4', 'btrfs'] as const)
    it(`leave nothing behind if they do not fit on a full ${type}`, async () => {
      open(join(mount(type, 150), 'state'))
      mkdirSync(config.state_dir)
      await swap.make(0, 64 * mib, signal)
      await swap.use(0)
      expect(await refusal(swap.make(1, 120 * mib, signal))).to.match(/^storage_full:/)
      expect(readdirSync(join(config.state_dir, 'swap'))).to.deep.equal(['swapfile'])
      expect(swapsBelow(scratch.path), 'the old one is still in use').to.deep.equal([fileOf(0)])
    })

  it('are rejected on a file system that does not support them', async () => {
    const target = join(scratch.path, 'tmpfs')
    mkdirSync(target)
    sh('mount', '-t', 'tmpfs', '-o', 'size=100M', 'tmpfs', target)
    open(join(target, 'state'))
    mkdirSync(config.state_dir)
    await swap.make(0, 64 * mib, signal)
    expect(await refusal(swap.use(0))).to.match(/^swap_unsupported:/)
  })

  describe('that hold memory pages of programs', () => {
    let group = ''
    let child: ChildProcess | undefined
    const layout = readCgroupLayout()
    const v1 = layout.version === 1

    /** Starts a process that needs 96 MB, in a cgroup with half as much memory. */
    async function fill(): Promise<void> {
      group = join(layout.controllers.get('memory') ?? '', 'btest-swap')
      mkdirSync(group, { recursive: true })
      writeFileSync(join(group, v1 ? 'memory.limit_in_bytes' : 'memory.max'), String(48 * mib))
      const program = [
        'import hashlib, sys',
        'block = bytes(range(256)) * (96 << 12)',
        'print("there", flush=True)',
        'sys.stdin.readline()',
        'print(hashlib.sha256(block).hexdigest(), flush=True)',
      ].join('\n')
      const enter = `echo $$ >${join(group, 'cgroup.procs')}; exec python3 -c '${program}'`
      child = spawn('sh', ['-c', enter], { stdio: ['pipe', 'pipe', 'inherit'] })
      await once(child.stdout!, 'data')
    }

    afterEach(async () => {
      child?.kill('SIGKILL')
      if (group) await waitFor(() => removed(group), { what: 'the removal of the group' })
    })

    const used = async (slot: 0 | 1): Promise<number> =>
      (await swap.read()).files.find((file) => file.slot === slot)?.usedBytes ?? 0

    it('lose no pages when the pages move to another swap file or to memory', async () => {
      await swap.make(0, 128 * mib, signal)
      await swap.use(0)
      await fill()
      expect(await used(0)).to.be.above(20 * mib)
      await swap.make(1, 256 * mib, signal)
      await swap.use(1)
      await discard(swap, 0, signal)
      expect(swapsBelow(scratch.path)).to.deep.equal([fileOf(1)])
      writeFileSync(join(group, v1 ? 'memory.limit_in_bytes' : 'memory.max'), String(512 * mib))
      await discard(swap, 1, signal)
      expect(swapsBelow(scratch.path)).to.deep.equal([])
      const said = once(child!.stdout!, 'data')
      child!.stdin!.write('\n')
      const [digest] = (await said) as [Buffer]
      expect(digest.toString().trim()).to.equal(expected())
    })

    it('stay in use if their deactivation is aborted', async () => {
      await swap.make(0, 128 * mib, signal)
      await swap.use(0)
      await fill()
      const abort = new AbortController()
      abort.abort()
      await refusal(swap.release(0, abort.signal))
      expect((await swap.read()).files[0]?.active).to.equal(true)
    })
  })
})

function expected(): string {
  const block = Buffer.from(Array.from({ length: 256 }, (_, at) => at))
  const hash = createHash('sha256')
  for (let part = 0; part < 96 << 12; part++) hash.update(block)
  return hash.digest('hex')
}

function removed(group: string): boolean {
  try {
    rmdirSync(group)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}
