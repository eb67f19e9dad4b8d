import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { parse as parseYaml } from 'yaml'
import { BerthError, invalidField, notFound } from '../../shared/errors.js'
import { CommandError, run } from '../host/process/process.js'
import type { ForeignContainer, ImportRequest, SourceKind } from './contract.js'
import { planExport } from './plan-export.js'
import { importRefused } from './plan-import.js'
import { planLxd } from './plan-lxd.js'
import { planProxmox, planRootPath } from './plan-proxmox.js'
import { readHead, readManifest, type ManifestSandbox } from './read-manifest.js'

/** A container as it was found on the host. */
export interface FoundContainer {
  readonly foreign: ForeignContainer
  /** Directory of the container's files, or their archive, without symbolic links. */
  readonly path: string
  readonly isArchive: boolean
}

const maxConfigBytes = 4 * 1024 ** 2
const containerPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/

/**
 * Reads the configuration of a container, and finds its files. Changes nothing.
 * @throws {BerthError} `invalid_field`, `not_found`, `import_refused`, `image_invalid`
 */
export async function readContainer(request: ImportRequest, sandbox: ManifestSandbox): Promise<FoundContainer> {
  if (request.kind === 'archive') return readArchive(request, sandbox)
  const { foreign, path } = await readers[request.kind](request)
  if (foreign.refusal !== undefined) throw importRefused(foreign.refusal)
  const root = await findRoot(request.rootfs ?? path)
  await refuseRunning(root)
  return { foreign, path: root, isArchive: false }
}

/** Reads the manifest of an export. Other archives have no manifest. All files are checked when they are unpacked. */
async function readArchive({ container }: ImportRequest, sandbox: ManifestSandbox): Promise<FoundContainer> {
  const path = await realpath(container).catch(() => undefined)
  if (path === undefined || !(await stat(path)).isFile()) throw notFound(container)
  const manifest = await readManifest(await readHead(path), sandbox)
  if (manifest) return { foreign: planExport(manifest), path, isArchive: true }
  const name = basename(container).replace(/\.(tar(\.\w+)?|tgz|txz|zip)$/, '')
  return { foreign: { ...describeDirectory(path), name }, path, isArchive: true }
}

/** A container's description, and the usual directory of its files. Undefined: the files are not in a directory. */
interface ContainerSource {
  readonly foreign: ForeignContainer
  readonly path: string | undefined
}

const readers: Readonly<Record<Exclude<SourceKind, 'archive'>, (request: ImportRequest) => Promise<ContainerSource>>> =
  {
    directory: async ({ container }) => ({ foreign: describeDirectory(container), path: container }),
    lxd: (request) => readLxd(request, lxd),
    incus: (request) => readLxd(request, incus),
    'proxmox-ct': readProxmox,
  }

function describeDirectory(path: string): ForeignContainer {
  return { name: basename(path), addresses: [], mappings: [], devices: [], notes: [] }
}

interface LxdPlaces {
  /** Possible paths of the client program. */
  readonly clients: readonly string[]
  /** Directories with the storage pools. */
  readonly pools: readonly string[]
}

const lxd: LxdPlaces = {
  clients: ['/snap/bin/lxc', '/usr/bin/lxc', '/usr/local/bin/lxc'],
  pools: ['/var/snap/lxd/common/lxd/storage-pools', '/var/lib/lxd/storage-pools'],
}
const incus: LxdPlaces = {
  clients: ['/usr/bin/incus', '/usr/local/bin/incus', '/opt/incus/bin/incus'],
  pools: ['/var/lib/incus/storage-pools'],
}

async function readLxd(request: ImportRequest, places: LxdPlaces): Promise<ContainerSource> {
  const { container, configFile } = request
  checkContainer(container)
  const parsed = configFile === undefined ? await query(container, places) : await readConfig(configFile)
  const foreign = planLxd(parsed)
  if (!foreign) throw importRefused('its configuration cannot be read')
  return { foreign, path: await findPooled(container, places) }
}

/** Asks LXD for the instance. The name is checked, so that it cannot change the path of the request. */
async function query(container: string, { clients }: LxdPlaces): Promise<unknown> {
  const client = await firstExisting(clients)
  if (client === undefined)
    throw importRefused(
      'the client program lxc or incus is not installed: pass the path of its backup.yaml with --config-file',
    )
  try {
    const { stdout } = await run(client, ['query', `/1.0/instances/${container}`], { maxOutputBytes: maxConfigBytes })
    return JSON.parse(stdout)
  } catch (cause) {
    if (!(cause instanceof CommandError)) throw cause
    throw new BerthError('not_found', 'not_found', `container ${container}: ${cause.stderr.trim().slice(0, 200)}`, {
      cause,
    })
  }
}

async function readConfig(path: string): Promise<unknown> {
  const text = await readText(path)
  try {
    return parseYaml(text, { maxAliasCount: 0 })
  } catch (cause) {
    throw invalidField(
      'config-file',
      `config-file: ${path} is not a YAML file: ${(cause as Error).message.slice(0, 200)}`,
    )
  }
}

/** Finds a container's directory in the storage pools. Pools on block devices mount it only for a running container. */
async function findPooled(container: string, { pools }: LxdPlaces): Promise<string | undefined> {
  for (const directory of pools)
    for (const pool of await readdir(directory).catch(() => [])) {
      const path = join(directory, pool, 'containers', container, 'rootfs')
      if (await stat(path).catch(() => undefined)) return path
    }
  return undefined
}

const proxmoxDirectory = '/etc/pve'
const numberPattern = /^[1-9]\d{2,8}$/

async function readProxmox({ container, configFile }: ImportRequest): Promise<ContainerSource> {
  if (!numberPattern.test(container))
    throw invalidField('container', 'container: must be the id of the container in Proxmox VE, for example 105')
  const foreign = planProxmox(await readText(configFile ?? join(proxmoxDirectory, 'lxc', `${container}.conf`)))
  if (!foreign) throw importRefused('its configuration contains no root file system')
  const storages = await readText(join(proxmoxDirectory, 'storage.cfg')).catch(() => '')
  return { foreign, path: planRootPath(foreign.rootVolume, Number(container), storages) }
}

function checkContainer(name: string): void {
  if (!containerPattern.test(name)) throw invalidField('container', 'container: must be the name of a container')
}

async function readText(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined)
  if (!found?.isFile()) throw notFound(path)
  if (found.size > maxConfigBytes) throw invalidField('config-file', `config-file: ${path} is too large`)
  return readFile(path, 'utf8')
}

async function firstExisting(paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) if (await stat(path).catch(() => undefined)) return path
  return undefined
}

async function findRoot(path: string | undefined): Promise<string> {
  const hint = 'mount its root file system read-only, and pass the directory with --rootfs'
  if (path === undefined) throw importRefused(`its files are not in a directory: ${hint}`)
  if (!path.startsWith('/')) throw invalidField('rootfs', 'rootfs: must be an absolute path')
  const root = await realpath(path).catch(() => undefined)
  if (root === undefined || root === '/') throw importRefused(`the directory ${path} does not exist: ${hint}`)
  const isSystem = (await stat(join(root, 'etc')).catch(() => undefined))?.isDirectory()
  if (!isSystem) throw importRefused(`the directory ${path} does not contain a root file system: ${hint}`)
  return root
}

/**
 * Refuses a directory that is the root of a process, because a running container could change its files meanwhile.
 * @throws {BerthError} `import_refused`
 */
async function refuseRunning(root: string): Promise<void> {
  const { dev, ino } = await stat(root)
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const its = await stat(`/proc/${pid}/root/`).catch(() => undefined) // the process may have ended meanwhile
    if (its?.dev === dev && its.ino === ino) throw importRefused('it is running: stop the container first')
  }
}
