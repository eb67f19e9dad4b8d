/** Matches the word "guest" except in `{{guests}}`, where a value is inserted, and in "guest agent", a program. */
const guestWord = /(?<!\{)\b([Gg])uest(?=s?\b)(?! agent)/g

/** Returns English texts in which guests are called servers, because customers do not know the provider's word. */
export function withCustomerWords(texts: Readonly<Record<string, string>>): Record<string, string> {
  const replace = (text: string): string => text.replace(guestWord, (_, first) => (first === 'G' ? 'Server' : 'server'))
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, replace(text)]))
}
