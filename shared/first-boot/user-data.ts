import { invalidField } from '../errors.js'
import { decodeText } from './decode.js'
import { FirstBootFault } from './fault.js'
import { checkContent, findForm, knownStarts } from './forms.js'
import { checkMime, isMime, withoutEnvelope } from './mime.js'

/** First-boot data in a form that the guest's operating system handles. */
export interface UserData {
  /** `mime`: a MIME message. `windows`: a form of cloudbase-init. Otherwise the content type of the text. */
  readonly type: 'mime' | 'windows' | (string & {})
  /** The decoded text. The byte order mark, leading blank lines and the "From " line of a mail program are removed. */
  readonly text: string
}

/** The first lines of the forms that cloudbase-init runs on Windows (cloudbase-init.readthedocs.io, userdata). */
const windowsStarts = /^(<powershell>|<script>|#ps1|rem cmd|#!|#cloud-config\b)/i

/**
 * Parses first-boot data. Refuses data that the guest's operating system would not understand. The reason: cloud-init
 * ignores unknown data and reports this only in a log inside the guest.
 * @throws {BerthError} `invalid_field`
 */
export function parseUserData(sent: string, os: 'linux' | 'windows' = 'linux'): UserData {
  try {
    return os === 'windows' ? parseForWindows(sent) : parseForLinux(sent)
  } catch (error) {
    if (!(error instanceof FirstBootFault)) throw error
    throw invalidField('user_data', `user_data: ${error.message}`)
  }
}

function parseForLinux(sent: string): UserData {
  const text = decodeText(sent, (plain) => findForm(plain) !== undefined || isMime(plain))
  if (isMime(text)) {
    const message = withoutEnvelope(text)
    checkMime(message)
    return { type: 'mime', text: message }
  }
  const type = findForm(text)
  if (type === undefined)
    throw new FirstBootFault(
      `must be a MIME message or begin with one of ${knownStarts}: cloud-init ignores other text`,
    )
  checkContent(type, text)
  return { type, text }
}

function parseForWindows(sent: string): UserData {
  const isKnown = (plain: string): boolean => windowsStarts.test(plain) || isMime(plain)
  const text = decodeText(sent, isKnown)
  if (!isKnown(text))
    throw new FirstBootFault(
      'must be a MIME message or begin with <powershell>, <script>, #ps1, rem cmd, #! or #cloud-config: ' +
        'cloudbase-init ignores other text',
    )
  return { type: 'windows', text }
}
