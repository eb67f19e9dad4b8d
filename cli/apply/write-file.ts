/* Writes fleet files. */

/** Control characters, and characters that change the direction of text. In texts of customers, they can be attacks. */
const unprintable = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g
const isUnprintable = (text: string): boolean => text.search(unprintable) >= 0

const head = '# Fleet file of Berth. Compare and apply it with: berth apply -f FILE\n'

/** Returns YAML. Quotes texts with unprintable characters, because YAML can escape characters only in quoted texts. */
export async function fleetFileText(content: unknown): Promise<string> {
  const { Document, visit } = await import('../yaml.js')
  const document = new Document(content, { aliasDuplicateObjects: false })
  visit(document, {
    Scalar: (_, scalar) => {
      if (typeof scalar.value === 'string' && isUnprintable(scalar.value)) scalar.type = 'QUOTE_DOUBLE'
    },
  })
  const text = document.toString({ lineWidth: 0 })
  return head + text.replace(unprintable, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
