import { expect } from 'chai'
import { findStreamItem } from './simplestreams.js'

const base = 'https://images.example.org/server'
const query = {
  distro: 'alpine',
  release: '3.20',
  arch: 'amd64',
  variant: 'default',
  fileType: 'root.tar.xz',
}
const sha256 = 'ab'.repeat(32)
const item = (path: string, change = {}) => ({ ftype: 'root.tar.xz', path, sha256, size: 5, ...change })
const list = (versions: object, name = 'alpine:3.20:amd64:default'): string =>
  JSON.stringify({ format: 'products:1.0', products: { [name]: { arch: 'amd64', versions } } })
const codeOf = (text: string): string => {
  try {
    return findStreamItem(text, base, query).url
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('the image lists of a simplestreams server', () => {
  it('lead to the newest version that contains the requested file', () => {
    const versions = {
      '20260101_13:00': { items: { 'root.tar.xz': item('images/a/1.tar.xz') } },
      '20260103_13:00': { items: { 'lxd.tar.xz': item('images/a/lxd.tar.xz', { ftype: 'lxd.tar.xz' }) } },
      '20260102_13:00': { items: { root: item('images/a/2.tar.xz') } },
    }
    expect(findStreamItem(list(versions), `${base}/`, query)).to.deep.equal({
      url: `${base}/images/a/2.tar.xz`,
      sha256,
      sizeBytes: 5,
      version: '20260102_13:00',
    })
  })

  for (const [name, text, code] of [
    ['if they are not JSON', '<html>', 'image_server_invalid'],
    ['if they contain no products', '{}', 'image_server_invalid'],
    ['if their products are not an object', list([] as never).replace('[]', '7'), 'image_server_invalid'],
    [
      'if they contain only a release other than the requested one',
      list({}, 'alpine:3.19:amd64:default'),
      'release_missing',
    ],
    ['if the release has no version', list({}), 'release_missing'],
    [
      'if their only product is called like a property that every JavaScript object has',
      JSON.stringify({ products: { constructor: { versions: {} } } }),
      'release_missing',
    ],
    [
      'if a file has no checksum',
      list({ 1: { items: { a: item('a', { sha256: undefined }) } } }),
      'image_server_invalid',
    ],
    ['if a checksum is too short', list({ 1: { items: { a: item('a', { sha256: 'ab' }) } } }), 'image_server_invalid'],
    [
      'if the path of a file leads above the base URL',
      list({ 1: { items: { a: item('../../a') } } }),
      'image_server_invalid',
    ],
    ['if the path of a file is absolute', list({ 1: { items: { a: item('/a') } } }), 'image_server_invalid'],
    [
      'if the path of a file is a URL of another server',
      list({ 1: { items: { a: item('https://evil.example/a') } } }),
      'image_server_invalid',
    ],
    [
      'if the path of a file is a URL of another server without a scheme',
      list({ 1: { items: { a: item('//evil.example/a') } } }),
      'image_server_invalid',
    ],
  ] as const)
    it(`are refused ${name}`, () => expect(codeOf(text)).to.equal(code))
})
