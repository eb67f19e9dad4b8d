import { expect } from 'chai'
import type { AddCustomImageRequest } from '../../proto/gen/berth/agent/v1/image.js'
import { BerthError } from '../../shared/errors.js'
import { parseCustom } from './parse-custom.js'

const request: AddCustomImageRequest = {
  id: 'custom-x-0123456789ab',
  virtualization: 'kvm',
  name: 'x',
  description: '',
  distro: 'x',
  release: '1',
  arch: 'amd64',
  variant: '',
  url: 'https://192.0.2.1/x',
  sha256: 'ab'.repeat(32),
  os: '',
  firmware: '',
  secureBoot: false,
  tpm: false,
}
const policy = { allowHttp: false, allowedTargets: ['192.0.2.0/24'], setting: 'images' }

function parse(fields: Partial<AddCustomImageRequest>) {
  try {
    return parseCustom({ ...request, ...fields }, policy).machine
  } catch (error) {
    if (error instanceof BerthError) return error.field
    throw error
  }
}

const shorten = (text: string): string =>
  text.length > 80 ? `${text.slice(0, 60)}… (${text.length} characters)` : text

describe('the firmware, secure boot and TPM of an added image', () => {
  for (const [what, fields, expected] of [
    ['absent by default', {}, undefined],
    ['UEFI for Windows by default', { os: 'windows' }, { firmware: 'uefi', secureBoot: false, tpm: false }],
    ['absent for Windows if a BIOS is requested', { os: 'windows', firmware: 'bios' }, undefined],
    [
      'UEFI with secure boot and a TPM on request',
      { firmware: 'uefi', secureBoot: true, tpm: true },
      { firmware: 'uefi', secureBoot: true, tpm: true },
    ],
    ['a BIOS with a TPM on request', { tpm: true }, { firmware: 'bios', secureBoot: false, tpm: true }],
    ['refused for secure boot with a BIOS', { secureBoot: true }, 'secure_boot'],
    ['refused for an unknown firmware', { firmware: 'coreboot' }, 'firmware'],
    ['refused for a container with UEFI', { virtualization: 'lxc', firmware: 'uefi' }, 'firmware'],
    ['refused for a CD with a TPM', { virtualization: 'iso', tpm: true }, 'tpm'],
    ['absent for a CD', { virtualization: 'iso' }, undefined],
  ] as const)
    it(`are ${what}`, () => expect(parse(fields)).to.deep.equal(expected))
})

describe('an added image', () => {
  for (const [fields, field] of [
    [{ id: 'debian-12' }, 'id'],
    [{ virtualization: 'vm' }, 'type'],
    [{ name: '' }, 'name'],
    [{ name: 'two\nlines' }, 'name'],
    [{ name: 'x'.repeat(101) }, 'name'],
    [{ description: 'a\u2028b' }, 'description'],
    [{ distro: 'a b' }, 'distro'],
    [{ release: '$(id)' }, 'release'],
    [{ variant: '../x' }, 'variant'],
    [{ arch: 'sparc' }, 'arch'],
    [{ arch: 'constructor' }, 'arch'],
    [{ sha256: 'abc' }, 'sha256'],
    [{ sha256: 'zz'.repeat(32) }, 'sha256'],
    [{ os: 'beos' }, 'os'],
    [{ os: 'windows', virtualization: 'lxc' }, 'os'],
    [{ url: 'ftp://example.org/a' }, 'url'],
    [{ url: 'file:///etc/shadow' }, 'url'],
    [{ url: 'https://user:pw@example.org/a' }, 'url'],
    [{ url: 'https://169.254.169.254/latest' }, 'url'],
    [{ url: 'https://10.0.0.1/a' }, 'url'],
    [{ url: 'https://[::1]/a' }, 'url'],
    [{ url: 'https://2130706434/a' }, 'url'],
    [{ url: `https://example.org/${'a'.repeat(2000)}` }, 'url'],
  ] as const)
    it(`is refused because of the field ${field} in ${shorten(JSON.stringify(fields))}`, () =>
      expect(parse(fields)).to.equal(field))
})
