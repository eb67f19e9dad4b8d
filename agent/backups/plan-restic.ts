import type { BackupTarget, S3Place, SftpPlace } from '../../proto/gen/berth/agent/v1/backup.js'
import type { BackupNote, StoredBackup } from './contract.js'

/** Files that a run of restic needs in its working directory. The keys are names, the values are contents. */
export type RunFiles = Readonly<Record<string, string>>

/** Parameters that give restic access to a repository. The arguments never contain secrets. */
export interface ResticPlan {
  readonly args: readonly string[]
  /** Environment of the process, which contains secrets. Only root can read it. */
  readonly env: Readonly<Record<string, string>>
  readonly files: RunFiles
}

const keyFile = 'key'
const hostsFile = 'known_hosts'
/** Name of the file in the working directory that receives ssh's error output. */
export const sshLog = 'ssh.log'
const authorityFile = 'authority.pem'

/**
 * Plans the access to a repository.
 * @param name name of the repository at the target, which is a guest's uuid
 * @param place absolute path of the working directory
 */
export function planRepository(target: BackupTarget, name: string, place: string): ResticPlan {
  const secret = { RESTIC_PASSWORD: target.password }
  const at = target.place
  switch (at?.$case) {
    case 'local':
      return { args: ['--repo', `${at.value.path}/${name}`], env: secret, files: {} }
    case 'sftp':
      return {
        args: [
          '--repo',
          `sftp:target:${at.value.path}/${name}`,
          '--option',
          `sftp.command=${sshCommand(at.value, place)}`,
        ],
        env: secret,
        files: { [keyFile]: ending(at.value.privateKey), [hostsFile]: knownHost(at.value) },
      }
    case 's3':
      return planS3(at.value, { name, at: place, secret })
    case undefined:
      throw new Error('the backup target has no location: a directory, an SFTP server or an S3 bucket')
  }
}

interface RunPlace {
  readonly name: string
  readonly at: string
  readonly secret: ResticPlan['env']
}

function planS3(place: S3Place, { name, at, secret }: RunPlace): ResticPlan {
  const { endpoint, bucket, prefix, region, accessKeyId, secretAccessKey, caCertificate } = place
  const folder = prefix === '' ? name : `${prefix}/${name}`
  return {
    args: [
      '--repo',
      `s3:${endpoint}/${bucket}/${folder}`,
      ...(region === '' ? [] : ['--option', `s3.region=${region}`]),
      ...(caCertificate === '' ? [] : ['--cacert', `${at}/${authorityFile}`]),
    ],
    env: { ...secret, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
    files: caCertificate === '' ? {} : { [authorityFile]: ending(caCertificate) },
  }
}

/** Returns an ssh command that ignores the host's ssh configuration and accepts only the server's known host key. */
function sshCommand({ host, port, user }: SftpPlace, place: string): string {
  const options = [
    'BatchMode=yes',
    'IdentitiesOnly=yes',
    'IdentityAgent=none',
    'StrictHostKeyChecking=yes',
    `UserKnownHostsFile=${place}/${hostsFile}`,
    'GlobalKnownHostsFile=/dev/null',
    'UpdateHostKeys=no',
    'ConnectTimeout=15',
    'ServerAliveInterval=10',
    'ServerAliveCountMax=3',
    'ForwardAgent=no',
    'ClearAllForwardings=yes',
  ]
  return [
    // ssh writes errors to a separate file, because restic can end before it has output the errors of ssh.
    'ssh',
    '-F',
    '/dev/null',
    '-E',
    `${place}/${sshLog}`,
    '-i',
    `${place}/${keyFile}`,
    ...options.flatMap((option) => ['-o', option]),
    '-p',
    String(port),
    '-l',
    user,
    host,
    '-s',
    'sftp',
  ].join(' ')
}

/** Returns a line of known_hosts (sshd(8)). With a port other than 22, the host is written as `[host]:port`. */
function knownHost({ host, port, hostKey }: SftpPlace): string {
  const [type, blob] = hostKey.trim().split(/ +/)
  return `${port === 22 ? host : `[${host}]:${port}`} ${type} ${blob}\n`
}

function ending(text: string): string {
  return text.endsWith('\n') ? text : `${text}\n`
}

const notePrefix = 'note:'

/** Returns the tags of a backup: its id and its note. The note is encoded, because a comma would split a tag. */
export function planTags(id: string, note: BackupNote): string[] {
  return [id, notePrefix + Buffer.from(JSON.stringify(note)).toString('base64url')]
}

/** An entry of `restic snapshots --json`. */
export interface ResticSnapshot {
  /** Id that restic gave to the snapshot. */
  readonly snapshotId: string
  readonly backup: StoredBackup
}

interface RawSnapshot {
  readonly id?: unknown
  readonly time?: unknown
  readonly tags?: unknown
}

const idPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Parses the snapshots that the agent created, oldest first. @throws if the text is not a list */
export function parseSnapshots(text: string): ResticSnapshot[] {
  const list = JSON.parse(text) as unknown
  if (list === null) return []
  if (!Array.isArray(list)) throw new Error('restic did not return a list of snapshots')
  const found = (list as RawSnapshot[]).flatMap((raw) => parseSnapshot(raw) ?? [])
  return found.sort((a, b) => a.backup.createdAtMs - b.backup.createdAtMs)
}

function parseSnapshot({ id: snapshotId, time, tags }: RawSnapshot): ResticSnapshot | undefined {
  const words = Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : []
  const id = words.find((tag) => idPattern.test(tag))
  if (id === undefined || typeof snapshotId !== 'string' || !/^[0-9a-f]{64}$/.test(snapshotId)) return undefined
  const createdAtMs = Date.parse(String(time)) || 0
  return { snapshotId, backup: { id, createdAtMs, ...parseNote(words) } }
}

function parseNote(tags: readonly string[]): BackupNote {
  const text = tags.find((tag) => tag.startsWith(notePrefix))?.slice(notePrefix.length) ?? ''
  try {
    const note = JSON.parse(Buffer.from(text, 'base64url').toString()) as Partial<BackupNote>
    const { createdBy, description, scheduled, templateId, resolvers, virtualization, settings, firewall } = note
    return {
      createdBy: String(createdBy ?? ''),
      description: String(description ?? ''),
      scheduled: scheduled === true,
      ...parseSizes(note),
      ...((virtualization === 'lxc' || virtualization === 'kvm') && { virtualization }),
      ...(Array.isArray(resolvers) && { resolvers: resolvers.map(String) }),
      ...(typeof templateId === 'string' && { templateId }),
      ...(typeof settings === 'string' && { settings }),
      ...(typeof firewall === 'string' && { firewall }),
    }
  } catch {
    return { createdBy: '', description: '', scheduled: false }
  }
}

const sizes = ['usedBytes', 'savedBytes', 'movedBytes'] as const

function parseSizes(note: Partial<BackupNote>): Pick<BackupNote, (typeof sizes)[number]> {
  const known = sizes.filter((name) => Number.isSafeInteger(note[name]) && note[name]! >= 0)
  return Object.fromEntries(known.map((name) => [name, note[name]]))
}

/** The content of a line of `restic backup --json`. */
export type ResticMessage =
  | { readonly kind: 'status'; readonly doneBytes: number; readonly totalBytes: number }
  | { readonly kind: 'summary'; readonly sizeBytes: number; readonly storedBytes: number }

/** Parses a line of `restic backup --json`. Returns undefined for any line except a status or a summary. */
export function parseResticMessage(line: string): ResticMessage | undefined {
  const message = parseObject(line)
  const figure = (field: string): number => Math.max(0, Number(message?.[field]) || 0)
  if (message?.['message_type'] === 'status')
    return { kind: 'status', doneBytes: figure('bytes_done'), totalBytes: figure('total_bytes') }
  if (message?.['message_type'] === 'summary')
    return { kind: 'summary', sizeBytes: figure('total_bytes_processed'), storedBytes: figure('data_added') }
  return undefined
}

function parseObject(line: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(line) as unknown
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
