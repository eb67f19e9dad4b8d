import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { tarEntry } from '../../agent/exports/archive-head.js'
import { startBerth, type ExitResult } from '../support/cli/berth.js'
import { fillBusyboxTree } from '../support/guests/busybox-image.js'
import { tarFile, tarSymlink } from '../support/guests/exported-archive.js'
import { ServedHost } from '../support/host/served-host.js'
import { waitFor } from '../support/wait.js'

/** Runs `berth-agent import` on a host with a real gateway. */
describe('berth-agent import', () => {
  const lab = new ServedHost({ name: 'imp', prefix: '198.18.154' })
  const source = join(lab.host.instance.pool, 'foreign/rootfs')
  const backup = join(lab.directory, 'backup.yaml')
  const first = 1_000_000 // the first user id of the container on the disk
  const importLxd = (...args: string[]) =>
    lab.host.runAgent('import', 'lxd', 'old1', '--config-file', backup, '--rootfs', source, ...args)

  before(async () => {
    await lab.start()
    mkdirSync(source, { recursive: true })
    fillBusyboxTree(source, 'foreign')
    mkdirSync(join(source, 'srv'))
    writeFileSync(join(source, 'srv/data'), 'content')
    writeFileSync(backup, backupYaml(first))
    execFileSync('chown', ['-R', '-h', `${first}:${first}`, source])
    chownSync(join(source, 'srv/data'), first + 33, first + 44)
    chmodSync(join(source, 'srv/data'), 0o4750) // a change of the owner removes the bit
  })

  after(() => lab.close())

  const berth = (...args: string[]): Promise<ExitResult> => {
    const env = { HOME: lab.directory, BERTH_URL: lab.gateway.url, BERTH_KEY: lab.gateway.adminKey }
    return startBerth(args, env).ended
  }
  /** Runs a program in a guest. */
  const run = (guest: string, ...command: string[]): Promise<ExitResult> => berth('run', guest, '--', ...command)

  it('prints the plan for a container of LXD and changes nothing with --dry-run', () => {
    const { code, out, err } = importLxd('--dry-run')
    expect(code, err).to.equal(0)
    expect(out).to.match(/^name +old1$/m)
    expect(out).to.match(/^user ids +shifted by 1000000$/m)
    expect(out).to.match(/^memory +256 MB$/m)
    expect(out).to.match(/^port +tcp 20080 to tcp 80$/m)
    expect(out).to.match(/^security\.nesting +guests cannot run containers/m)
  })

  it('creates a guest with the container’s files, limits and ports, and does not change the container', async () => {
    const { code, out, err } = importLxd('--start')
    expect(code, `${err}${lab.host.logTail()}`).to.equal(0)
    expect(out).to.match(/^imported as old1: id \d+, uuid [0-9a-f-]{36}$/m)
    const guest = (await lab.send('GET', '/containers/old1')).data
    expect(guest).to.include({ name: 'old1', status: 'running', ram_mb: 256, disk_gb: 3, template: 'imported' })
    const files = await run('old1', 'sh', '-c', 'ls -ln /srv/data; cat /srv/data /etc/hostname')
    expect(files.out, files.err).to.match(/^-rwsr-x--- +1 33 +44 .*\ncontentold1\n$/)
    expect(statSync(join(source, 'srv/data')).uid).to.equal(first + 33)
    expect(existsSync(join(source, 'etc/hostname'))).to.equal(false)
  })

  it('continues after the agent was killed while it copied the files', async () => {
    const large = join(lab.host.instance.pool, 'foreign/large')
    mkdirSync(large)
    fillBusyboxTree(large, 'foreign')
    execFileSync('sh', ['-c', `head -c 100000000 /dev/urandom >${large}/root/data`])
    const importing = lab.host.startAgentCommand('import', 'directory', large, '--start')
    await waitFor(async () => (await lab.gateway.request('GET', '/containers/large')).status === 200, {
      what: () => `the import begins\n${lab.host.logTail()}`,
    })
    await lab.host.kill()
    await once(importing, 'exit')
    lab.host.start()
    await lab.running('large')
    const data = await run('large', 'sh', '-c', 'busybox md5sum </root/data; cat /etc/hostname')
    const expected = createHash('md5')
      .update(readFileSync(join(large, 'root/data')))
      .digest('hex')
    expect(data.out, data.err).to.equal(`${expected}  -\nlarge\n`)
  })

  it('creates a guest from an archive, and removes everything if the archive contains no system', async () => {
    const archive = join(lab.directory, 'old3.tar.zst')
    const ids = ['--owner=0', '--group=0', '--numeric-owner']
    execFileSync('tar', ['--create', '--zstd', `--file=${archive}`, ...ids, '-C', source, '.'])
    const imported = lab.host.runAgent('import', 'archive', archive, '--disk', '1', '--start')
    expect(imported.code, imported.err).to.equal(0)
    const files = await run('old3', 'cat', '/srv/data', '/etc/hostname')
    expect(files.out, files.err).to.equal('contentold3\n')
    const other = join(lab.directory, 'other.tar')
    execFileSync('tar', ['--create', `--file=${other}`, ...ids, '-C', join(source, 'srv'), 'data'])
    const volumes = readdirSync(join(lab.host.instance.pool, 'guests'))
    const { code, err } = lab.host.runAgent('import', 'archive', other, '--disk', '1')
    expect(code).to.equal(1)
    expect(err).to.contain('not the root file system of a Linux distribution: /etc/passwd does not contain root')
    expect(readdirSync(join(lab.host.instance.pool, 'guests'))).to.have.members(volumes)
    expect((await lab.gateway.request('GET', '/containers/other')).status).to.equal(404)
  })

  describe('after berth guest export', () => {
    const archive = join(lab.directory, 'exported.tar.zst')
    const answers: Response[] = [] // a response that is not referenced could be canceled
    const volumeOf = async (name: string): Promise<string> => {
      const { uuid } = (await lab.send('GET', `/containers/${name}`)).data as { uuid: string }
      return join(lab.host.instance.pool, 'guests', uuid)
    }
    /** Lists the snapshots of exports in the pool. */
    const snapshots = (): string[] =>
      readdirSync(join(lab.host.instance.pool, 'snapshots'), { recursive: true, encoding: 'utf8' }).filter((path) =>
        /^[^/]+\/export-[^/]+$/.test(path),
      )
    const snapshotGone = (): Promise<unknown> =>
      waitFor(() => snapshots().length === 0, { what: () => `no snapshot of an export\n${lab.host.logTail()}` })
    /** Begins an export whose client reads only the headers. The rest does not fit into the buffers on the way. */
    const openExport = async (): Promise<AbortController> => {
      const client = new AbortController()
      const url = `${lab.gateway.url}/api/v1/containers/large/export`
      const options = { headers: { 'x-api-key': lab.gateway.adminKey }, signal: client.signal }
      // The agent refuses a second export for a moment after the snapshot of the first one was deleted.
      const opened = async (): Promise<boolean> => {
        const answer = await fetch(url, options)
        answers.push(answer)
        return answer.status === 200
      }
      await waitFor(opened, { what: () => `the export begins\n${lab.host.logTail()}` })
      expect(snapshots()).to.have.length(1)
      return client
    }

    it('creates a guest with the same files, owners, attributes and settings from the archive', async () => {
      const from = await volumeOf('old1')
      execFileSync('sh', ['-c', hostileFiles], { cwd: join(from, 'srv') })
      const exported = await berth('guest', 'export', 'old1', '-f', archive)
      expect(exported.code, `${exported.err}${lab.host.logTail()}`).to.equal(0)
      await snapshotGone()
      const names = execFileSync('tar', ['--list', '--file', archive], { encoding: 'utf8' }).split('\n')
      expect(names.slice(0, 2)).to.deep.equal(['berth-export.json', 'rootfs/'])
      expect(names.filter((name) => name !== '' && !/^(berth-export\.json$|rootfs\/)/.test(name))).to.deep.equal([])
      const imported = lab.host.runAgent('import', 'archive', archive, '--name', 'again', '--start')
      expect(imported.code, `${imported.err}${lab.host.logTail()}`).to.equal(0)
      expect(imported.out).to.match(/^tcp port 20080 +the host port is in use or outside the port range of the host/m)
      const guest = (await lab.send('GET', '/containers/again')).data
      expect(guest).to.include({ status: 'running', ram_mb: 256, disk_gb: 3, template: 'imported' })
      const to = await volumeOf('again')
      expect(describeFiles(join(to, 'srv'))).to.equal(describeFiles(join(from, 'srv')))
      expect(describeFiles(join(to, 'srv'))).to.contain('cap_net_raw=ep')
    })

    describe('through the API', () => {
      const volumes = (): string[] => readdirSync(join(lab.host.instance.pool, 'guests')).sort()
      /** Resolves when a failed creation has left neither a guest nor a volume. */
      const gone = (name: string, before: string[]): Promise<unknown> =>
        waitFor(
          async () =>
            (await lab.gateway.request('GET', `/containers/${name}`)).status === 404 &&
            volumes().join() === before.join(),
          { what: () => `the creation of ${name} is undone\n${lab.host.logTail()}` },
        )

      it('creates a guest with the same files, limits and ports from the archive', async () => {
        const imported = await berth('guest', 'import', archive, '--name', 'viaapi', '--start')
        expect(imported.code, `${imported.err}${lab.host.logTail()}`).to.equal(0)
        await lab.running('viaapi')
        const guest = (await lab.send('GET', '/containers/viaapi')).data
        expect(guest).to.include({ ram_mb: 256, disk_gb: 3, template: 'imported' })
        const mappings = guest.port_mappings as { container_port: number; host_port: number }[]
        expect(mappings.map(({ container_port: port }) => port)).to.include.members([22, 80])
        // The first guest still has the host port of the archive.
        expect(mappings.find(({ container_port: port }) => port === 80)?.host_port).not.to.equal(20_080)
        const [from, to] = [await volumeOf('old1'), await volumeOf('viaapi')]
        expect(describeFiles(join(to, 'srv'))).to.equal(describeFiles(join(from, 'srv')))
        const files = await run('viaapi', 'cat', '/srv/data', '/etc/hostname')
        expect(files.out, files.err).to.equal('contentviaapi\n')
      })

      it('leaves nothing if the agent is killed while it receives the archive', async () => {
        const large = join(lab.directory, 'large.tar.zst')
        const exported = await berth('guest', 'export', 'large', '-f', large)
        expect(exported.code, exported.err).to.equal(0)
        const before = volumes()
        const headers = { 'x-api-key': lab.gateway.adminKey, 'content-type': 'application/x-tar' }
        const url = `${lab.gateway.url}/api/v1/containers/import?name=killed`
        const client = request(url, { method: 'POST', headers, agent: false }).on('error', () => undefined)
        client.on('response', (response) => void response.resume())
        client.write(readFileSync(large).subarray(0, 20_000_000)) // the rest is never sent
        const isReceiving = async (): Promise<boolean> => {
          const { data } = await lab.send('GET', '/tasks?status=running')
          return (data as { stage: string }[]).some(({ stage }) => /^receiving: 16 MiB$/.test(stage))
        }
        await waitFor(isReceiving, { what: () => `the archive arrives\n${lab.host.logTail()}` })
        expect(volumes()).to.have.length.above(before.length)
        await lab.killAgent()
        lab.host.start()
        await lab.online()
        await gone('killed', before)
        client.destroy()
      })

      it('refuses an archive with entries that lead out of it, and leaves nothing', async () => {
        const manifest = execFileSync('tar', ['-x', '-O', '-f', archive, 'berth-export.json'])
        const planted = Buffer.from('planted')
        const hostile = join(lab.directory, 'hostile.tar')
        const paths = ['rootfs/out/planted', `${'../'.repeat(12)}${lab.directory.slice(1)}/planted`]
        const entries = [
          tarEntry('berth-export.json', manifest, new Date(0)),
          tarSymlink('rootfs/out', lab.directory),
          ...paths.map((path) => tarEntry(path, planted, new Date(0))),
        ]
        writeFileSync(hostile, Buffer.concat([...entries, Buffer.alloc(1024)]))
        const before = volumes()
        const { code, err } = await berth('guest', 'import', hostile, '--name', 'hostile')
        expect([code, err.includes('(image_invalid)')], err).to.deep.equal([2, true])
        await gone('hostile', before)
        expect(existsSync(join(lab.directory, 'planted'))).to.equal(false)
      })

      it('refuses a small archive whose files do not fit on the disk, and leaves nothing', async () => {
        const manifest = execFileSync('tar', ['-x', '-O', '-f', archive, 'berth-export.json'])
        const zeros = Buffer.alloc(16 * 1024 ** 2)
        const count = 80 // more than 1 GiB
        const head = [
          tarEntry('berth-export.json', manifest, new Date(0)),
          tarFile('rootfs/zeros', count * zeros.length),
        ]
        const [first, next] = [Buffer.concat(head), zeros].map((input) => execFileSync('zstd', ['--stdout'], { input }))
        const bomb = join(lab.directory, 'bomb.tar.zst')
        writeFileSync(bomb, Buffer.concat([first!, ...Array.from({ length: count }, () => next!)]))
        expect(statSync(bomb).size).to.be.below(1_000_000)
        const before = volumes()
        const { code, err } = await berth('guest', 'import', bomb, '--name', 'bomb', '--disk', '1g')
        expect([code === 0, err.includes('(disk_too_small)')], err).to.deep.equal([false, true])
        await gone('bomb', before)
      })
    })

    it('refuses a second export of the guest until the first client disconnects and the snapshot is deleted', async () => {
      const client = await openExport()
      const second = await lab.gateway.request('GET', '/containers/large/export')
      expect([second.status, second.body.code]).to.deep.equal([409, 'invalid_state'])
      client.abort()
      await snapshotGone()
    })

    it('deletes the snapshot of an export at the next start of the agent if the agent was killed', async () => {
      const client = await openExport()
      await lab.killAgent()
      expect(snapshots()).to.have.length(1)
      lab.host.start()
      await snapshotGone()
      client.abort()
      await lab.online()
    })
  })

  it('refuses the name of another guest, and the directory of a running guest', () => {
    const taken = lab.host.runAgent('import', 'directory', source, '--name', 'old1')
    expect([taken.code, taken.err]).to.deep.equal([1, 'berth-agent: a container named old1 already exists\n'])
    const guests = join(lab.host.instance.pool, 'guests')
    const running = readdirSync(guests).find((uuid) => existsSync(join(guests, uuid, 'srv/data')))!
    const { code, err } = lab.host.runAgent('import', 'directory', join(guests, running), '--name', 'old2')
    expect([code, err]).to.deep.equal([
      1,
      'berth-agent: the container cannot be imported: it is running: stop the container first\n',
    ])
  })
})

/** Makes files in the working directory that an export could treat wrongly. */
const hostileFiles = `
  ln data hard && ln -s ../../../../../../etc/passwd outside && ln -s /proc/1/root absolute && mkfifo pipe
  truncate --size=1T huge && printf x >"$(printf 'new\\nline')" && printf x >-rf && printf x >'s,a,b,'
  mkdir rootfs && ln -s . rootfs/loop && printf y >rootfs/berth-export.json
  cp /bin/true tool && chown 1000:65534 tool && setcap cap_net_raw+ep tool && setfattr -n user.note -v text data`

/** Describes the files in a directory: type, mode, owner, size, links, targets, attributes and content of small files. */
function describeFiles(directory: string): string {
  const script = `find . -printf '%p %y %m %U:%G %s %n %l\\n' | sort; getcap -r . | sort; getfattr -d -R -h . | sort
    find . -type f -size -1000k -print0 | sort -z | xargs -0 sha256sum; test data -ef hard && echo linked`
  return execFileSync('sh', ['-c', script], { cwd: directory, encoding: 'utf8' })
}

/** The file backup.yaml of a container of LXD. @param first the first user id of the container on the disk */
function backupYaml(first: number): string {
  const range = { Isuid: true, Isgid: true, Hostid: first, Nsid: 0, Maprange: 65_536 }
  const config = {
    'limits.memory': '256MiB',
    'security.nesting': 'true',
    'volatile.last_state.idmap': JSON.stringify([range]),
  }
  const devices = {
    root: { type: 'disk', path: '/', pool: 'default', size: '3GiB' },
    http: { type: 'proxy', listen: 'tcp:0.0.0.0:20080', connect: 'tcp:10.1.2.3:80' },
  }
  const container = {
    name: 'old1',
    status: 'Stopped',
    type: 'container',
    expanded_config: config,
    expanded_devices: devices,
  }
  return JSON.stringify({ container }) // JSON is YAML
}
