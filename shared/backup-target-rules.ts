import { isIP } from 'node:net'
import type { BackupTarget, LocalPlace, S3Place, SftpPlace } from '../proto/gen/berth/agent/v1/backup.js'
import { BerthError, invalidField } from './errors.js'
import { checkInteger } from './field-checks.js'
import { uuidPattern } from './guest-rules.js'
import { parseSshPublicKey } from './ssh-public-key.js'

/*
 * Rules for backup targets, checked by the gateway and again by the agent. Accepted values can be used safely as an
 * argument, as an environment value and within an ssh command. Private addresses are allowed, because only
 * administrators add targets and most backups use private networks.
 */

export const backupTargetNamePattern = '^[A-Za-z0-9][A-Za-z0-9._ -]{0,62}$'

const segment = '[A-Za-z0-9_@+=~.-]+'
const patterns = {
  name: new RegExp(backupTargetNamePattern),
  id: new RegExp(uuidPattern),
  absolutePath: new RegExp(`^(/${segment})+$`),
  remotePath: new RegExp(`^/?${segment}(/${segment})*$`),
  prefix: new RegExp(`^(${segment}(/${segment})*)?$`),
  hostName: /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/,
  user: /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/,
  privateKey: /^-----BEGIN [A-Z ]*PRIVATE KEY-----\n[\x20-\x7e\n]{1,16000}\n-----END [A-Z ]*PRIVATE KEY-----\n?$/,
  certificate: /^(-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]{1,8000}\n-----END CERTIFICATE-----\n?){1,4}$/,
  endpoint: /^https?:\/\/[A-Za-z0-9.:[\]-]{1,255}$/,
  region: /^[A-Za-z0-9-]{0,64}$/,
  bucket: /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
  word: /^[\x21-\x7e]{1,256}$/,
  password: /^[^\p{Cc}\u2028\u2029]{12,256}$/u,
} as const

const pathLength = 500

/**
 * Checks every field of a backup target. Errors name the field as the API spells it.
 * @throws {BerthError} `invalid_field`, `missing_field`
 */
export function checkBackupTarget(target: BackupTarget): void {
  const { place } = target
  must('id', patterns.id.test(target.id), 'must be a uuid')
  must('name', patterns.name.test(target.name), 'must be 1 to 63 letters, digits, spaces, ".", "_" or "-"')
  must('encryption_password', patterns.password.test(target.password), 'must be 12 to 256 characters on one line')
  checkInteger('verify_percent', target.verifyPercent, { min: 0, max: 100 })
  if (!place) throw new BerthError('invalid', 'missing_field', 'type: is required', { field: 'type' })
  if (place.$case === 'local') checkLocal(place.value)
  else if (place.$case === 'sftp') checkSftp(place.value)
  else checkS3(place.value)
}

function checkLocal({ path }: LocalPlace): void {
  must('path', isPath(path, patterns.absolutePath), 'must be an absolute path without ".." and spaces')
}

function checkSftp({ host, port, user, path, privateKey, hostKey }: SftpPlace): void {
  must('host', isHost(host), 'must be a host name or an IP address')
  checkInteger('port', port, { min: 1, max: 65_535 })
  must('user', patterns.user.test(user), 'must be a user name')
  must('path', isPath(path, patterns.remotePath), 'must be a path without ".." and spaces')
  must(
    'private_key',
    patterns.privateKey.test(privateKey),
    'must be a private key without a passphrase, exactly as in its file',
  )
  parseSshPublicKey(hostKey, 'host_key', 1024) // 1024 bits, because ssh(1) refuses shorter RSA host keys
}

function checkS3(place: S3Place): void {
  must('endpoint', isEndpoint(place.endpoint), 'must be http:// or https://, a host and an optional port')
  must('region', patterns.region.test(place.region), 'must be letters, digits and "-"')
  must('bucket', patterns.bucket.test(place.bucket), 'must be the name of a bucket')
  must('prefix', isPath(place.prefix, patterns.prefix), 'must be folders with "/" between them')
  must('access_key_id', patterns.word.test(place.accessKeyId), 'must be printable characters')
  const isPem = place.caCertificate === '' || patterns.certificate.test(place.caCertificate)
  must('ca_certificate', isPem, 'must be certificates in PEM')
  must('secret_access_key', patterns.word.test(place.secretAccessKey), 'must be printable characters')
}

function isPath(path: string, pattern: RegExp): boolean {
  const steps = path.split('/')
  return path.length <= pathLength && pattern.test(path) && !steps.includes('..') && !steps.includes('.')
}

function isHost(host: string): boolean {
  return isIP(host) !== 0 ? !host.includes('%') : patterns.hostName.test(host)
}

function isEndpoint(endpoint: string): boolean {
  return patterns.endpoint.test(endpoint) && URL.canParse(endpoint)
}

function must(field: string, holds: boolean, rule: string): void {
  if (!holds) throw invalidField(field, `${field}: ${rule}`)
}
