#!/bin/sh
# Downloads Kafka's broker and the newest connector for Spark that there is, by Maven, and the PySpark of its
# version into an environment of its own (460 MB). The argument is the Python. Says nothing where all is there.
set -eu
cd "$(dirname "$0")"
spark=4.2.0
case $1 in
/*) python=$1 ;;
*) python=$OLDPWD/$1 ;;
esac
if ! command -v mvn >/dev/null 2>&1 || ! command -v java >/dev/null 2>&1; then
    echo "kafka/setup.sh: Kafka is left out: it needs Java and Maven" >&2
    exit 0
fi
made=target/made-$spark
[ -f "$made" ] && ! [ pom.xml -nt "$made" ] && exit 0
rm -rf target
for part in broker connector; do
    mvn --batch-mode --quiet "-P$part" "-Dspark.version=$spark" dependency:copy-dependencies \
        "-DoutputDirectory=$PWD/target/$part" >&2
done
"$python" -m venv target/venv
target/venv/bin/python -m pip install --quiet --disable-pip-version-check "pyspark==$spark" pyarrow isal ../..
touch "$made"
